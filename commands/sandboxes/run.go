package sandboxes

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// RunOptions are the options of run.
type RunOptions struct {
	App  *cli.App
	Spec core.Spec
	// Named is service.LaunchOptions.Named.
	Named bool
	// Exec has no command for that of the image.
	Exec core.ExecSpec
	Keep bool
}

// NewRun makes "sb run".
func NewRun(app *cli.App) *cobra.Command {
	opts := &RunOptions{App: app}
	flags := &cli.SpecFlags{}
	streams := &cli.ExecFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] [COMMAND [ARG...]]",
		Short: "Run a command in a new sandbox",
		Long: "Launch a sandbox, run a command or that of its image in it, and terminate the sandbox when the\n" +
			"command returns. The sandbox ends with sb, even if sb is killed; --keep leaves it running." +
			cli.GuestExitHelp,
		Example: "  sb run -- python3 -c 'print(6*7)'\n" +
			"  sb run --network none --memory 512MiB -- ./untrusted\n" +
			"  sb run -it -- bash\n" +
			"  sb run --image hello-world\n" +
			"  sb run --keep --name build -c 'git clone https://example.com/repo && make -C repo'\n" +
			"  generate | sb run python3 filter.py > result",
		Annotations: cli.PassesCode(),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := flags.Spec(cmd.Flags(), app.Streams, app.LookupEnv)
			if err != nil {
				return err
			}
			if len(args) == 0 && !cmd.Flags().Changed("command") {
				args = spec.Command
			}
			var argv []string
			if len(args) > 0 || cmd.Flags().Changed("command") || !namesImage(spec) {
				if argv, err = streams.Argv(cmd, args); err != nil {
					return err
				}
			}
			spec.Command = nil
			opts.Spec, opts.Named = spec, cmd.Flags().Changed("volume")
			opts.Exec = core.ExecSpec{Command: argv, TTY: streams.TTY}
			streams.Connect(app, &opts.Exec)
			return runRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().SetInterspersed(false)
	streams.RegisterStreams(cmd, "")
	cmd.Flags().BoolVar(&opts.Keep, "keep", false, "keep the sandbox running after the command")
	flags.Register(app, cmd)
	return cmd
}

// namesImage reports whether a spec names an image that may have its own command.
func namesImage(spec core.Spec) bool {
	return spec.Image != "" && spec.Image != core.HostImage || spec.Dockerfile != "" || spec.Python != ""
}

func runRun(ctx context.Context, opts *RunOptions) (err error) {
	app := opts.App
	svc, err := app.Service()
	if err != nil {
		return err
	}
	report, stop := app.Progress()
	box, err := svc.Sandboxes.Launch(
		ctx, opts.Spec, service.LaunchOptions{
			Named: opts.Named, Bound: !opts.Keep, Progress: report, Notice: opts.App.Notice,
		},
	)
	stop()
	if err != nil {
		return err
	}
	if opts.Keep {
		_, _ = fmt.Fprintf(app.Streams.Err, "sandbox %s (%s)\n", box.Name, box.ID)
	} else {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cli.CleanupTimeout)
			defer cancel()
			endErr := svc.Sandboxes.Terminate(ctx, box.ID)
			if endErr != nil && !errors.Is(endErr, core.KindNotFound) && err == nil {
				err = cli.OwnFailure(endErr)
			}
			if ignored, ok := errors.AsType[*cli.IgnoredError](err); ok {
				ignored.Ended = endErr == nil
			}
		}()
	}
	if ctx.Err() != nil {
		return core.Wrap("run", box.Name, context.Canceled)
	}
	if len(opts.Exec.Command) == 0 {
		if opts.Exec.Command, err = svc.Sandboxes.ImageCommand(ctx, box); err != nil {
			return err
		}
	}
	return app.Execute(ctx, svc, box.ID, opts.Exec)
}
