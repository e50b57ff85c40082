package stores

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewSecret makes "sb secret", the group of commands for secrets that providers keep.
func NewSecret(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use: "secret", Short: "Manage secrets stored at providers",
		Long: "Manage secrets: named sets of environment variables, whose values cannot be read back. \"sb launch\n" +
			"--secret-ref KEY=NAME\" passes one to a sandbox.",
		Example: "  sb secret create openai OPENAI_API_KEY\n  sb launch --provider modal --secret-ref " +
			"OPENAI_API_KEY=openai\n  sb secret ls",
	}, NewSecretLs(app), NewSecretCreate(app), NewSecretRm(app))
}

// maxSecret bounds a value that is read from stdin.
const maxSecret = 1 << 20

// SecretCreateOptions are the options of secret create.
type SecretCreateOptions struct {
	cli.StoreFlags

	App     *cli.App
	Name    string
	Keys    []string
	Files   []string
	Replace bool
}

// NewSecretCreate makes "sb secret create".
func NewSecretCreate(app *cli.App) *cobra.Command {
	opts := &SecretCreateOptions{App: app}
	cmd := &cobra.Command{
		Use: "create SECRET [KEY|KEY=@FILE|KEY=-]...", Short: "Store a secret at a provider",
		Long: "Store environment variables at a provider under a name. KEY takes the value of that variable here,\n" +
			"KEY=@FILE reads a file, and KEY=- reads stdin.",
		Example: "  sb secret create openai OPENAI_API_KEY --provider modal\n" +
			"  sb secret create registry REGISTRY_USERNAME REGISTRY_PASSWORD=@password.txt\n" +
			"  pass show token | sb secret create deploy TOKEN=-\n" +
			"  sb secret create app --from-file .env --replace",
		Args: cli.AtLeast("SECRET"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Name, opts.Keys = args[0], args[1:]; len(opts.Keys) == 0 && len(opts.Files) == 0 {
				return cli.Usagef(cmd, "%s needs KEY or --from-file", cmd.CommandPath())
			}
			return runSecretCreate(cmd.Context(), opts)
		},
	}
	opts.RegisterProvider(
		app, cmd, "the provider `NAME` that keeps it (default: the configured one, or the only usable one)",
	)
	cmd.Flags().StringArrayVar(
		&opts.Files, "from-file", nil, "store all variables of the KEY=VALUE lines of `FILE` (repeatable)",
	)
	cmd.Flags().BoolVar(&opts.Replace, "replace", false, "replace an existing secret")
	cli.JSONFlag(cmd, &opts.JSON, "name, id, provider, created, keys")
	return cmd
}

func runSecretCreate(ctx context.Context, opts *SecretCreateOptions) error {
	values, err := opts.Values()
	if err != nil {
		return err
	}
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	made, err := service.Stores.CreateSecret(
		ctx, opts.Provider, opts.Name, values, core.SecretOptions{Replace: opts.Replace},
	)
	if err != nil {
		return err
	}
	return opts.Tell(opts.App, "secret", made.Name, made)
}

// Values reads the variables.
func (o *SecretCreateOptions) Values() (map[string]core.SecretValue, error) {
	values := map[string]core.SecretValue{}
	for _, file := range o.Files {
		found, err := cli.ReadDotenv("--from-file", file)
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
			if err := cli.CheckKey("KEY", name); err != nil {
				return nil, err
			}
			value, err := o.fromStdin(name)
			if err != nil {
				return nil, err
			}
			values[name] = value
		case strings.Contains(key, "=") && !strings.HasPrefix(rest, "@"):
			return nil, core.Errorf(
				core.KindUsage, "secret create", name, "the value of %s is on the command line, where others can read it", name,
			).
				WithHint("write %s, %s=@FILE or %s=-", name, name, name)
		default:
			others = append(others, key)
		}
	}
	// The rest is read as --secret reads it.
	secrets, err := (&cli.EnvFlags{Secrets: others}).ReadSecrets(o.App.LookupEnv, o.App.Streams)
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
		return core.SecretValue{}, cli.FileError("KEY=-", "stdin", err)
	}
	if len(text) > maxSecret {
		return core.SecretValue{}, core.Errorf(
			core.KindUsage, "secret create", key, "the value of %s is larger than %s", key, core.Bytes(maxSecret),
		)
	}
	return core.NewSecretValue(strings.TrimRight(string(text), "\r\n")), nil
}

// NewSecretLs makes "sb secret ls".
func NewSecretLs(app *cli.App) *cobra.Command {
	return cli.NewStoreLs(app, cli.StoreList[core.SecretInfo]{
		Short: "List secrets", Long: "List the names of the secrets of all providers or of one. Values are never shown.",
		Example: "  sb secret ls\n  sb secret ls --provider modal --json",
		Fields:  "name, id, provider, created, last_used, keys (if the provider reports them)", Quiet: "names",
		Headers: []string{"NAME", "PROVIDER", "KEYS", "AGE", "LAST USED"},
		List: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.SecretInfo], error) {
			return svc.Stores.Secrets(ctx, provider)
		},
		Row: func(app *cli.App, s core.SecretInfo) []string {
			return []string{s.Name, s.Provider, strings.Join(s.Keys, " "), app.Since(s.Created), app.Since(s.LastUsed)}
		},
		ID: func(s core.SecretInfo) string { return s.Name },
	})
}

// secretNames returns the names of secrets, for completion.
func secretNames(ctx context.Context, svc *service.Service) []string {
	found, err := svc.Stores.Secrets(ctx, "")
	return cli.Named(found, err, func(s core.SecretInfo) []string { return []string{s.Name} })
}

// NewSecretRm makes "sb secret rm".
func NewSecretRm(app *cli.App) *cobra.Command {
	return cli.NewStoreRm(app, cli.StoreRemoval{
		Noun: "secret", Short: "Remove secrets",
		Long:    "Remove secrets from a provider; running sandboxes keep their values. On a terminal it asks first.",
		Example: "  sb secret rm openai\n  sb secret rm --provider modal --yes openai",
		Names:   secretNames,
		Remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.Stores.RemoveSecret(ctx, provider, name)
		},
	})
}
