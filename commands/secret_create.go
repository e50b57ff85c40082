package commands

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
)

// maxSecret bounds a value that is read from stdin.
const maxSecret = 1 << 20

// SecretCreateOptions are what secret create works with.
type SecretCreateOptions struct {
	storeFlags

	App     *App
	Name    string
	Keys    []string
	Files   []string
	Replace bool
}

// NewSecretCreate makes "sb secret create".
func NewSecretCreate(app *App) *cobra.Command {
	opts := &SecretCreateOptions{App: app}
	cmd := &cobra.Command{
		Use: "create SECRET [KEY|KEY=@FILE|KEY=-]...", Short: "Have a provider keep a secret",
		Long: "Have a provider keep environment variables under a name. KEY takes the value from the variable of\n" +
			"that name here, KEY=@FILE from a file, KEY=- from stdin, and --from-file all KEY=VALUE lines of a\n" +
			"file. A value is never an argument, which other processes could read." + exitStatusHelp,
		Example: "  sb secret create openai OPENAI_API_KEY --provider modal\n" +
			"  sb secret create registry REGISTRY_USERNAME REGISTRY_PASSWORD=@password.txt\n" +
			"  pass show token | sb secret create deploy TOKEN=-\n" +
			"  sb secret create app --from-file .env --replace",
		Args: atLeast("SECRET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Name, opts.Keys = args[0], args[1:]; len(opts.Keys) == 0 && len(opts.Files) == 0 {
				return usagef(cmd, "%s needs KEY or --from-file", cmd.CommandPath())
			}
			return runSecretCreate(cmd.Context(), opts)
		},
	}
	opts.provider(app, cmd, "the provider `NAME` that keeps it (default: the configured one, or the only one set up that can)")
	cmd.Flags().StringArrayVar(&opts.Files, "from-file", nil, "take all variables of the KEY=VALUE lines of `FILE` (repeatable)")
	cmd.Flags().BoolVar(&opts.Replace, "replace", false, "take the place of a secret of that name")
	jsonFlag(cmd, &opts.JSON, "name, id, provider, created, keys")
	return cmd
}

func runSecretCreate(ctx context.Context, opts *SecretCreateOptions) error {
	values, err := opts.values()
	if err != nil {
		return err
	}
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	made, err := service.CreateSecret(ctx, opts.Provider, opts.Name, values, core.SecretOptions{Replace: opts.Replace})
	if err != nil {
		return err
	}
	return opts.tell(opts.App, made, made.Name)
}

// values reads the variables.
func (o *SecretCreateOptions) values() (map[string]core.SecretValue, error) {
	values := map[string]core.SecretValue{}
	for _, file := range o.Files {
		found, err := readDotenv("--from-file", file)
		if err != nil {
			return nil, err
		}
		for key, value := range found {
			values[key] = core.NewSecretValue(value)
		}
	}
	var others []string
	for _, key := range o.Keys {
		name, rest, _ := strings.Cut(key, "=")
		switch {
		case rest == "-":
			if err := checkKey("KEY", name); err != nil {
				return nil, err
			}
			value, err := o.fromStdin(name)
			if err != nil {
				return nil, err
			}
			values[name] = value
		case strings.Contains(key, "=") && !strings.HasPrefix(rest, "@"):
			return nil, core.Errorf(core.KindUsage, "secret create", name, "the value of %s is on the command line, where others can read it", name).
				WithHint("write %s, %s=@FILE or %s=-", name, name, name)
		default:
			others = append(others, key)
		}
	}
	// What is left is read as --secret reads it.
	secrets, err := (&EnvFlags{Secrets: others}).secrets(o.App.LookupEnv, o.App.Streams)
	if err != nil {
		return nil, err
	}
	for _, secret := range secrets {
		values[secret.Name] = secret.Value
	}
	return values, nil
}

// fromStdin reads one value from stdin, without the line end behind it.
func (o *SecretCreateOptions) fromStdin(key string) (core.SecretValue, error) {
	if o.App.Streams.CanPrompt() {
		_, _ = fmt.Fprintf(o.App.Streams.Err, "value of %s, then ctrl-d: ", key)
	}
	text, err := io.ReadAll(io.LimitReader(o.App.Streams.In, maxSecret+1))
	if err != nil {
		return core.SecretValue{}, fileError("KEY=-", "stdin", err)
	}
	if len(text) > maxSecret {
		return core.SecretValue{}, core.Errorf(core.KindUsage, "secret create", key, "the value of %s is larger than %s", key, core.Bytes(maxSecret))
	}
	return core.NewSecretValue(strings.TrimRight(string(text), "\r\n")), nil
}
