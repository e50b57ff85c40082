package watch

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// EventsOptions are the options of events.
type EventsOptions struct {
	App     *cli.App
	Sandbox string
	JSON    bool
}

// NewEvents makes "sb events".
func NewEvents(app *cli.App) *cobra.Command {
	opts := &EventsOptions{App: app}
	cmd := &cobra.Command{
		Use:   "events [SANDBOX]",
		Short: "Show events as they happen",
		Long: "Show state changes, starts and ends of commands, and operations as they happen, until interrupted.\n" +
			"With SANDBOX, show only its events.",
		Example:           "  sb events\n  sb events --json dev | jq -r 'select(.state).state'",
		Args:              cli.Between(nil, "SANDBOX"),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				opts.Sandbox = args[0]
			}
			return runEvents(cmd.Context(), opts)
		},
	}
	cli.JSONFlag(
		cmd, &opts.JSON,
		"NDJSON of time, type, provider, sandbox, name, state, reason, message, op, result, actor, exec, progress",
	)
	return cmd
}

func runEvents(ctx context.Context, opts *EventsOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	only := ""
	if opts.Sandbox != "" {
		box, err := service.Sandboxes.Resolve(ctx, opts.Sandbox)
		if err != nil {
			return err
		}
		only = box.ID
	}
	var last error // an error ends the events only as the last item
	for event, err := range service.Records.Events(ctx) {
		if err != nil {
			_, _ = fmt.Fprintf(opts.App.Streams.Err, "warning: %s\n", output.Clean(err.Error()))
			last = err
			continue
		}
		last = nil
		if only != "" && event.Sandbox != only {
			continue
		}
		if opts.JSON {
			err = output.Line(opts.App.Streams.Out, event)
		} else {
			_, err = fmt.Fprintln(opts.App.Streams.Out, eventText(event))
		}
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return last
}

// eventText is one line for a person.
func eventText(e core.Event) string {
	words := []string{e.Time.Local().Format("15:04:05"), string(e.Type)}
	add := func(values ...string) {
		for _, v := range values {
			if v != "" {
				words = append(words, v)
			}
		}
	}
	add(e.Provider, e.Name)
	if e.Name == "" {
		add(e.Sandbox)
	}
	add(string(e.State), string(e.Reason), e.Op, e.Result, e.Actor)
	if e.Exec != nil {
		add(e.Exec.ID, cli.ExecStatus(*e.Exec), cli.ShellText(e.Exec.Command))
	}
	if e.Progress != nil {
		add(e.Progress.Step)
	}
	if d := e.Denial; d != nil {
		add("refused", d.Protocol, d.Name)
		if d.Address != "" {
			add(net.JoinHostPort(d.Address, strconv.Itoa(d.Port)))
		}
		add("(" + d.Why + ")")
	}
	add(e.Message)
	return output.Clean(strings.Join(words, " "))
}
