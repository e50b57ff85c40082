package sandboxes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// verb is a command that performs one operation on each named or selected sandbox.
type verb struct {
	use, short, long, example string
	// result is the outcome in JSON: "paused".
	result string
	// parse reads the argument before the sandboxes; use has its name. It is nil if the command has none.
	parse func(string) error
	// flags adds the verb's own flags; nil if there are none.
	flags func(*cobra.Command)
	// do returns a note for the user, or "".
	do func(ctx context.Context, svc *service.Service, id string) (note string, err error)
}

// NewPause makes "sb pause".
func NewPause(app *cli.App) *cobra.Command {
	return verb{
		use: "pause SANDBOX...", short: "Pause running sandboxes", example: "  sb pause dev", result: "paused",
		long: "Pause all processes of sandboxes, in memory. Commands wait for \"sb resume\"; lifetimes keep counting.",
		do: func(ctx context.Context, svc *service.Service, id string) (string, error) {
			return "", svc.Sandboxes.Pause(ctx, id)
		},
	}.command(app)
}

// NewResume makes "sb resume".
func NewResume(app *cli.App) *cobra.Command {
	return verb{
		use: "resume SANDBOX...", short: "Resume paused sandboxes", example: "  sb resume dev", result: "resumed",
		long: "Resume the processes of paused sandboxes.",
		do: func(ctx context.Context, svc *service.Service, id string) (string, error) {
			return "", svc.Sandboxes.Resume(ctx, id)
		},
	}.command(app)
}

// NewStart makes "sb start".
func NewStart(app *cli.App) *cobra.Command {
	return verb{
		use: "start SANDBOX...", short: "Start stopped sandboxes", result: "started",
		long:    "Start sandboxes that were stopped or crashed, with their last saved files.",
		example: "  sb start dev\n  sb start --app web",
		do: func(ctx context.Context, svc *service.Service, id string) (string, error) {
			started, err := svc.Sandboxes.Start(ctx, id)
			if err != nil || started.Message == "" {
				return "", err
			}
			return started.Name + ": " + started.Message, nil // its files were damaged
		},
	}.command(app)
}

// NewStop makes "sb stop".
func NewStop(app *cli.App) *cobra.Command {
	grace := cli.DurationValue(10 * time.Second)
	return verb{
		use: "stop SANDBOX...", short: "Stop persistent sandboxes and keep their files", result: "stopped",
		long: "Stop sandboxes that were launched with --persist; \"sb start\" starts them again with their files.\n" +
			"Their commands get SIGTERM and, after the grace period, SIGKILL.",
		example: "  sb stop dev\n  sb stop --grace 1m --label team=ml",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().Var(&grace, "grace", "time between SIGTERM and SIGKILL")
		},
		do: func(ctx context.Context, svc *service.Service, id string) (string, error) {
			return "", svc.Sandboxes.Stop(ctx, id, time.Duration(grace))
		},
	}.command(app)
}

// NewTimeout makes "sb timeout".
func NewTimeout(app *cli.App) *cobra.Command {
	var timeout core.Duration
	return verb{
		use: "timeout DURATION SANDBOX...", short: "Set the remaining lifetime of sandboxes", result: "set",
		long: "Set the remaining lifetime of sandboxes, counted from now: 30m, 2h, 7d, or 0 for no limit.\n" +
			"It is enforced where the sandbox runs, even without sb.",
		example: "  sb timeout 2h dev\n  sb timeout 0 --app shop",
		parse:   func(text string) (err error) { timeout, err = core.ParseDuration(text); return err },
		do: func(ctx context.Context, svc *service.Service, id string) (string, error) {
			_, err := svc.Sandboxes.SetTimeout(ctx, id, time.Duration(timeout))
			return "", err
		},
	}.command(app)
}

func (v verb) command(app *cli.App) *cobra.Command {
	var selected cli.SelectFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use: v.use, Short: v.short, Long: v.long, Example: v.example, ValidArgsFunction: app.CompleteSandboxes,
		RunE: func(cmd *cobra.Command, refs []string) error {
			if v.parse != nil {
				if err := v.parse(refs[0]); err != nil {
					return err
				}
				refs = refs[1:]
			}
			if err := selected.Check(cmd, refs); err != nil {
				return err
			}
			return v.run(cmd.Context(), app, selected, refs, asJSON)
		},
	}
	if v.parse != nil {
		cmd.Args, cmd.ValidArgsFunction = cli.AtLeast("DURATION"), completeAfterDuration(app)
	}
	if v.flags != nil {
		v.flags(cmd)
	}
	selected.Register(app, cmd)
	cli.JSONFlag(cmd, &asJSON, "an array of id, name, result ("+v.result+", or the kind of the error), error")
	return cmd
}

func (v verb) run(ctx context.Context, app *cli.App, selected cli.SelectFlags, refs []string, asJSON bool) error {
	svc, err := app.Service()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var notes []string
	boxes, missing := selected.Resolve(ctx, app, svc, refs)
	failed := cli.ForEach(ctx, app, boxes, missing, v.result, asJSON, func(ctx context.Context, box core.Sandbox) error {
		note, err := v.do(ctx, svc, box.ID)
		if note != "" {
			mu.Lock()
			notes = append(notes, note)
			mu.Unlock()
		}
		return err
	})
	for _, note := range notes {
		_, _ = fmt.Fprintln(app.Streams.Err, note)
	}
	return failed
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
