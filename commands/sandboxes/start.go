package sandboxes

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
)

// StartOptions are what start works with.
type StartOptions struct {
	App    *cli.App
	Refs   []string
	Select cli.SelectFlags
	JSON   bool
}

// NewStart makes "sb start".
func NewStart(app *cli.App, runF func(context.Context, *StartOptions) error) *cobra.Command {
	opts := &StartOptions{App: app}
	cmd := &cobra.Command{
		Use:               "start SANDBOX...",
		Short:             "Start stopped sandboxes",
		Long:              "Start sandboxes that were stopped or crashed, with their last saved files.",
		Example:           "  sb start dev\n  sb start --app web",
		ValidArgsFunction: app.CompleteSandboxes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.Select.Check(cmd, args); err != nil {
				return err
			}
			opts.Refs = args
			return cli.OrRun(runF, runStart)(cmd.Context(), opts)
		},
	}
	opts.Select.Register(app, cmd)
	cli.JSONFlag(cmd, &opts.JSON, "an array of id, name, result (started, or the kind of the error), error")
	return cmd
}

func runStart(ctx context.Context, opts *StartOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	boxes, missing := opts.Select.Resolve(ctx, opts.App, service, opts.Refs)
	var mu sync.Mutex
	var notes []string
	failed := cli.ForEach(ctx, opts.App, boxes, missing, "started", opts.JSON, func(ctx context.Context, box core.Sandbox) error {
		started, err := service.Start(ctx, box.ID)
		if err == nil && started.Message != "" {
			mu.Lock()
			notes = append(notes, started.Name+": "+started.Message)
			mu.Unlock()
		}
		return err
	})
	// What a running sandbox has a message about was damaged.
	for _, note := range notes {
		_, _ = fmt.Fprintln(opts.App.Streams.Err, note)
	}
	return failed
}
