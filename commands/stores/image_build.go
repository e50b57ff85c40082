package stores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// ImageBuildOptions are the options of image build.
type ImageBuildOptions struct {
	cli.StoreFlags

	App     *cli.App
	Dir     string
	Name    string
	File    string
	Args    []string
	Target  string
	Secrets []string
	NoCache bool
	Pull    string
	Network string
	Allow   []string
}

// NewImageBuild makes "sb image build".
func NewImageBuild(app *cli.App) *cobra.Command {
	opts := &ImageBuildOptions{App: app}
	cmd := &cobra.Command{
		Use: "build DIR", Short: "Build an image from a Dockerfile",
		Long: "Build an image from a Dockerfile and print its id. On this machine each step runs in a sandbox, without\n" +
			"a daemon and without root.",
		Example: "  sb image build -t app:1.0 .\n" +
			"  sb image build -t app --build-arg VERSION=2 --target test .\n" +
			"  sb image build -t app --secret id=token,src=token.txt .",
		Args: cli.Exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Dir = args[0]
			return runImageBuild(cmd.Context(), opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&opts.Name, "tag", "t", "", "`NAME` of the image")
	flags.StringVarP(&opts.File, "file", "f", "", "path of the Dockerfile (default Dockerfile in DIR)")
	flags.StringArrayVar(&opts.Args, "build-arg", nil, "`NAME=VALUE` of an ARG; without a value that of the environment")
	flags.StringVar(&opts.Target, "target", "", "`STAGE` to build (default the last one)")
	flags.StringArrayVar(&opts.Secrets, "secret", nil,
		"secret for RUN --mount=type=secret, from a file or a variable: `id=ID,src=FILE` or id=ID,env=NAME")
	flags.BoolVar(&opts.NoCache, "no-cache", false, "run all steps again")
	flags.StringVar(&opts.Pull, "pull", "", "`WHEN` to download base images: missing, always or never (default missing)")
	flags.StringVar(&opts.Network, "network", "", "network of the steps: all or none (default all)")
	flags.StringArrayVar(&opts.Allow, "allow", nil, "`DOMAIN` or CIDR that the steps may reach, and no other")
	cli.Complete(cmd, "pull", cli.Fixed(core.PullPolicies()...))
	cli.Complete(cmd, "network", cli.Fixed(string(core.NetworkAll), string(core.NetworkNone)))
	opts.RegisterProvider(app, cmd, "the provider `NAME` (default: the configured one, or the first one set up that can)")
	cli.JSONFlag(cmd, &opts.JSON, "id, names, provider, created, size")
	cli.QuietFlag(cmd, &opts.Quiet, "the id, with no progress")
	if err := cmd.MarkFlagRequired("tag"); err != nil {
		panic(err)
	}
	return cmd
}

func runImageBuild(ctx context.Context, opts *ImageBuildOptions) error {
	build, err := opts.build()
	if err != nil {
		return err
	}
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	// The steps and their output stay on the screen, as other tools show them.
	report := func(p core.Progress) {
		if p.Total > 0 {
			return
		}
		_, _ = fmt.Fprintln(opts.App.Streams.Err, output.Clean(p.Step))
	}
	if opts.Quiet {
		report = nil
	}
	built, err := service.Stores.BuildImage(ctx, opts.Provider, build, report)
	if err != nil {
		return err
	}
	return opts.Tell(opts.App, "image", built.ID, built)
}

// build returns the build that the flags describe.
func (o *ImageBuildOptions) build() (core.ImageBuild, error) {
	b := core.ImageBuild{Name: o.Name, Target: o.Target, NoCache: o.NoCache, Spec: core.Spec{
		Pull: core.PullPolicy(o.Pull), Network: core.Network{Mode: core.NetworkMode(o.Network), Allow: o.Allow},
	}}
	if len(o.Allow) > 0 && o.Network == "" {
		b.Spec.Network.Mode = core.NetworkAllow
	}
	var err error
	if b.Dir, err = filepath.Abs(o.Dir); err != nil {
		return b, err
	}
	b.File = filepath.Join(b.Dir, "Dockerfile")
	if o.File != "" {
		if b.File, err = filepath.Abs(o.File); err != nil {
			return b, err
		}
	}
	b.Args = map[string]string{}
	for _, arg := range o.Args {
		name, value, given := strings.Cut(arg, "=")
		if !given {
			if value, given = o.App.LookupEnv(name); !given {
				continue // as other tools do
			}
		}
		b.Args[name] = value
	}
	b.Secrets = map[string]core.SecretValue{}
	for _, secret := range o.Secrets {
		id, value, err := o.secret(secret)
		if err != nil {
			return b, err
		}
		b.Secrets[id] = value
	}
	return b, nil
}

// maxBuildSecret bounds the size of a secret's file in bytes.
const maxBuildSecret = 500 << 10

// secret reads a secret: "id=ID,src=FILE", "id=ID,env=NAME", or "id=ID" for the variable or the file of that name.
func (o *ImageBuildOptions) secret(text string) (id string, value core.SecretValue, err error) {
	var file, variable string
	for field := range strings.SplitSeq(text, ",") {
		key, rest, _ := strings.Cut(field, "=")
		switch key {
		case "id":
			id = rest
		case "src", "source":
			file = rest
		case "env":
			variable = rest
		case "type":
		default:
			return "", value, core.Invalid("secret", "%q is not one of id, src and env", key)
		}
	}
	if id == "" || file != "" && variable != "" {
		return "", value, core.Invalid("secret", "it must be id=ID,src=FILE or id=ID,env=NAME")
	}
	if file == "" {
		if found, ok := o.App.LookupEnv(cmp.Or(variable, id)); ok {
			return id, core.NewSecretValue(found), nil
		}
		if variable != "" {
			return "", value, core.Invalid("secret", "there is no variable %s", variable)
		}
		file = id
	}
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxBuildSecret) {
		err = errors.New("it is not a file of at most 500 KiB")
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(file)
	}
	if err != nil {
		return "", value, core.Errorf(core.KindUsage, "image build", file, "the secret %s cannot be read: %w", id, err)
	}
	return id, core.NewSecretValue(string(raw)), nil
}
