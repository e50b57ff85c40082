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
	Exec core.ExecSpec
	Keep bool
}

// NewRun makes "sb run".
func NewRun(app *cli.App) *cobra.Command {
	opts := &RunOptions{App: app}
	flags := &cli.SpecFlags{}
	streams := &cli.ExecFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARG...]",
		Short: "Run a command in a new sandbox",
		Long: "Launch a sandbox, run a command in it, and terminate the sandbox when the command returns.\n" +
			"The sandbox ends with sb, even if sb is killed; --keep leaves it running.\n\n" +
			"Flags end at the first word of COMMAND. --timeout limits the sandbox's lifetime, and so the command's.\n" +
			"Streams and signals work as in \"sb exec\", other flags as in \"sb launch\". Without COMMAND, the command of\n" +
			"--file runs." + cli.GuestExitHelp,
		Example: "  sb run -- python3 -c 'print(6*7)'\n" +
			"  sb run --network none --memory 512MiB -- ./untrusted\n" +
			"  sb run -it -- bash\n" +
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
			argv, err := streams.Argv(cmd, args)
			if err != nil {
				return err
			}
			spec.Command = nil
			opts.Spec = spec
			opts.Exec = core.ExecSpec{Command: argv, TTY: streams.TTY}
			streams.Connect(app, &opts.Exec)
			return runRun(cmd.Context(), opts)
		},
	}
	cmd.Flags().SetInterspersed(false)
	streams.RegisterStreams(cmd, "")
	cmd.Flags().BoolVar(&opts.Keep, "keep", false, "leave the sandbox running when the command ended")
	flags.Register(app, cmd)
	return cmd
}

func runRun(ctx context.Context, opts *RunOptions) (err error) {
	app := opts.App
	svc, err := app.Service()
	if err != nil {
		return err
	}
	report, stop := app.Progress()
	box, err := svc.Sandboxes.Launch(
		ctx, opts.Spec, service.LaunchOptions{Bound: !opts.Keep, Progress: report, Notice: opts.App.Notice},
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
	return app.Execute(ctx, svc, box.ID, opts.Exec)
}
