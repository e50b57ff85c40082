package exec

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
)

// AttachOptions are the options of attach.
type AttachOptions struct {
	App     *cli.App
	Sandbox string
	Exec    string
	Streams core.Streams
}

// NewAttach makes "sb attach".
func NewAttach(app *cli.App) *cobra.Command {
	opts := &AttachOptions{App: app}
	var noStdin, noReplay bool
	cmd := &cobra.Command{
		Use:   "attach SANDBOX [EXEC]",
		Short: "Connect to a running command",
		Long: "Connect this terminal to a running command, and show its earlier output first. EXEC is an id from\n" +
			"\"sb ps\" (default: the entry command)." + cli.GuestExitHelp,
		Example:           "  sb attach dev 3\n  sb attach --no-stdin --no-replay dev",
		Annotations:       cli.PassesCode(),
		Args:              cli.Between([]string{"SANDBOX"}, "EXEC"),
		ValidArgsFunction: app.CompleteExecs,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Sandbox, opts.Exec = args[0], "0"
			if len(args) > 1 {
				opts.Exec = args[1]
			}
			opts.Streams = core.Streams{Stdout: app.Streams.Out, Stderr: app.Streams.Err, Replay: !noReplay}
			if !noStdin {
				opts.Streams.Stdin = app.Streams.In
			}
			return runAttach(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&noStdin, "no-stdin", "n", false, "do not forward stdin")
	cmd.Flags().BoolVar(&noReplay, "no-replay", false, "show only new output")
	return cmd
}

func runAttach(ctx context.Context, opts *AttachOptions) error {
	app := opts.App
	service, err := app.Service()
	if err != nil {
		return err
	}
	entry, err := service.Execs.Find(ctx, opts.Sandbox, opts.Exec)
	if err != nil && !errors.Is(err, core.KindUnsupported) { // a provider that cannot list commands may still attach
		return err
	}
	var size core.TerminalSize
	terminal := entry.TTY && entry.Running() && opts.Streams.Stdin != nil
	if terminal {
		measured, restore, err := app.Terminal()
		if err != nil {
			return err
		}
		defer restore()
		size = measured
	}
	process, err := service.Execs.Attach(ctx, opts.Sandbox, opts.Exec, opts.Streams)
	if err != nil {
		return err
	}
	defer process.Close()
	if terminal {
		_ = process.Resize(ctx, size) // after a failure the old size stays
	}
	exit, err := app.Follow(ctx, process)
	return app.Result(ctx, service, opts.Sandbox, exit, err)
}
