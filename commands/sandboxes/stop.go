package sandboxes

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
)

// StopOptions are what stop works with.
type StopOptions struct {
	App    *cli.App
	Refs   []string
	Select cli.SelectFlags
	Grace  time.Duration
	JSON   bool
}

// NewStop makes "sb stop".
func NewStop(app *cli.App, runF func(context.Context, *StopOptions) error) *cobra.Command {
	opts := &StopOptions{App: app}
	grace := cli.DurationValue(10 * time.Second)
	cmd := &cobra.Command{
		Use:   "stop SANDBOX...",
		Short: "Stop persistent sandboxes and keep their files",
		Long: "Stop sandboxes that were launched with --persist. Their commands get SIGTERM and, after the grace period,\n" +
			"SIGKILL. Their files are kept; \"sb start\" starts them again.",
		Example:           "  sb stop dev\n  sb stop --grace 1m --label team=ml",
		ValidArgsFunction: app.CompleteSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.Select.Check(cmd, args); err != nil {
				return err
			}
			opts.Refs = args
			opts.Grace = time.Duration(grace)
			return cli.OrRun(runF, runStop)(cmd.Context(), opts)
		},
	}
	cmd.Flags().Var(&grace, "grace", "how long commands have to end by themselves")
	opts.Select.Register(app, cmd)
	cli.JSONFlag(cmd, &opts.JSON, "an array of id, name, result (stopped, or the kind of the error), error")
	return cmd
}

func runStop(ctx context.Context, opts *StopOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	boxes, missing := opts.Select.Resolve(ctx, opts.App, service, opts.Refs)
	return cli.ForEach(ctx, opts.App, boxes, missing, "stopped", opts.JSON, func(ctx context.Context, box core.Sandbox) error {
		return service.Stop(ctx, box.ID, opts.Grace)
	})
}
