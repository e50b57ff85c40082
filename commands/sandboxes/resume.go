package sandboxes

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
)

// ResumeOptions are what resume works with.
type ResumeOptions struct {
	App    *cli.App
	Refs   []string
	Select cli.SelectFlags
	JSON   bool
}

// NewResume makes "sb resume".
func NewResume(app *cli.App, runF func(context.Context, *ResumeOptions) error) *cobra.Command {
	opts := &ResumeOptions{App: app}
	cmd := &cobra.Command{
		Use:               "resume SANDBOX...",
		Short:             "Resume paused sandboxes",
		Long:              "Resume the processes of paused sandboxes.",
		Example:           "  sb resume dev",
		ValidArgsFunction: app.CompleteSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.Select.Check(cmd, args); err != nil {
				return err
			}
			opts.Refs = args
			return cli.OrRun(runF, runResume)(cmd.Context(), opts)
		},
	}
	opts.Select.Register(app, cmd)
	cli.JSONFlag(cmd, &opts.JSON, "an array of id, name, result (resumed, or the kind of the error), error")
	return cmd
}

func runResume(ctx context.Context, opts *ResumeOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	boxes, missing := opts.Select.Resolve(ctx, opts.App, service, opts.Refs)
	return cli.ForEach(ctx, opts.App, boxes, missing, "resumed", opts.JSON, func(ctx context.Context, box core.Sandbox) error {
		return service.Resume(ctx, box.ID)
	})
}
