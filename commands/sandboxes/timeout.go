package sandboxes

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
)

// TimeoutOptions are what timeout works with.
type TimeoutOptions struct {
	App     *cli.App
	Timeout core.Duration
	Refs    []string
	Select  cli.SelectFlags
	JSON    bool
}

// NewTimeout makes "sb timeout".
func NewTimeout(app *cli.App, runF func(context.Context, *TimeoutOptions) error) *cobra.Command {
	opts := &TimeoutOptions{App: app}
	cmd := &cobra.Command{
		Use:   "timeout DURATION SANDBOX...",
		Short: "Set the remaining lifetime of sandboxes",
		Long: "Set the remaining lifetime of sandboxes, counted from now: 30m, 2h, 7d, or 0 for no limit.\n" +
			"It is enforced where the sandbox runs, even without sb.",
		Example:           "  sb timeout 2h dev\n  sb timeout 0 --app shop",
		Args:              cli.AtLeast("DURATION"),
		ValidArgsFunction: completeAfterDuration(app),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opts.Timeout, err = core.ParseDuration(args[0]); err != nil {
				return err
			}
			opts.Refs = args[1:]
			if err := opts.Select.Check(cmd, opts.Refs); err != nil {
				return err
			}
			return cli.OrRun(runF, runTimeout)(cmd.Context(), opts)
		},
	}
	opts.Select.Register(app, cmd)
	cli.JSONFlag(cmd, &opts.JSON, "an array of id, name, result (set, or the kind of the error), error")
	return cmd
}

// completeAfterDuration completes sandboxes after the duration.
func completeAfterDuration(a *cli.App) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return []cobra.Completion{"30m", "2h", "1d", "0"}, cobra.ShellCompDirectiveNoFileComp
		}
		return a.CompleteSandboxes(cmd, args[1:], word)
	}
}

func runTimeout(ctx context.Context, opts *TimeoutOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	boxes, missing := opts.Select.Resolve(ctx, opts.App, service, opts.Refs)
	return cli.ForEach(ctx, opts.App, boxes, missing, "set", opts.JSON, func(ctx context.Context, box core.Sandbox) error {
		_, err := service.SetTimeout(ctx, box.ID, time.Duration(opts.Timeout))
		return err
	})
}
