package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
)

// TimeoutOptions are what timeout works with.
type TimeoutOptions struct {
	App     *App
	Timeout core.Duration
	Refs    []string
	Select  SelectFlags
	JSON    bool
}

// NewTimeout makes "sb timeout".
func NewTimeout(app *App, runF func(context.Context, *TimeoutOptions) error) *cobra.Command {
	opts := &TimeoutOptions{App: app}
	cmd := &cobra.Command{
		Use:   "timeout DURATION SANDBOX...",
		Short: "Set how long sandboxes may live from now",
		Long: "Set how long sandboxes may live from now, whatever their lifetime was: 30m, 2h, 7d; 0 is for ever.\n" +
			"It is written down where the sandbox runs and holds without sb." + exitStatusHelp,
		Example:           "  sb timeout 2h dev\n  sb timeout 0 --app shop",
		Args:              atLeast("DURATION"),
		ValidArgsFunction: app.completeTimeout,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opts.Timeout, err = core.ParseDuration(args[0]); err != nil {
				return err
			}
			opts.Refs = args[1:]
			if err := opts.Select.check(cmd, opts.Refs); err != nil {
				return err
			}
			return orRun(runF, runTimeout)(cmd.Context(), opts)
		},
	}
	opts.Select.register(app, cmd)
	jsonFlag(cmd, &opts.JSON, "an array of id, name, result (set, or the kind of the error), error")
	return cmd
}

// completeTimeout completes sandboxes after the duration.
func (a *App) completeTimeout(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return []cobra.Completion{"30m", "2h", "1d", "0"}, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeSandboxes(cmd, args[1:], word)
}

func runTimeout(ctx context.Context, opts *TimeoutOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	boxes, missing := opts.Select.resolve(ctx, opts.App, service, opts.Refs)
	return forEach(ctx, opts.App, boxes, missing, "set", opts.JSON, func(ctx context.Context, box core.Sandbox) error {
		_, err := service.SetTimeout(ctx, box.ID, time.Duration(opts.Timeout))
		return err
	})
}
