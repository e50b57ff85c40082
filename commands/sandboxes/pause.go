package sandboxes

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
)

// PauseOptions are what pause works with.
type PauseOptions struct {
	App    *cli.App
	Refs   []string
	Select cli.SelectFlags
	JSON   bool
}

// NewPause makes "sb pause".
func NewPause(app *cli.App, runF func(context.Context, *PauseOptions) error) *cobra.Command {
	opts := &PauseOptions{App: app}
	cmd := &cobra.Command{
		Use:               "pause SANDBOX...",
		Short:             "Pause running sandboxes",
		Long:              "Pause all processes of sandboxes, in memory. Commands wait for \"sb resume\"; lifetimes keep counting.",
		Example:           "  sb pause dev",
		ValidArgsFunction: app.CompleteSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.Select.Check(cmd, args); err != nil {
				return err
			}
			opts.Refs = args
			return cli.OrRun(runF, runPause)(cmd.Context(), opts)
		},
	}
	opts.Select.Register(app, cmd)
	cli.JSONFlag(cmd, &opts.JSON, "an array of id, name, result (paused, or the kind of the error), error")
	return cmd
}

func runPause(ctx context.Context, opts *PauseOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	boxes, missing := opts.Select.Resolve(ctx, opts.App, service, opts.Refs)
	return cli.ForEach(ctx, opts.App, boxes, missing, "paused", opts.JSON, func(ctx context.Context, box core.Sandbox) error {
		return service.Pause(ctx, box.ID)
	})
}
