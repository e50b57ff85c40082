package sandboxes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// LsOptions are the options of ls.
type LsOptions struct {
	App     *cli.App
	Select  cli.SelectFlags
	Orphans bool
	JSON    bool
	Quiet   bool
}

// NewLs makes "sb ls".
func NewLs(app *cli.App) *cobra.Command {
	opts := &LsOptions{App: app}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List sandboxes",
		Long: "List sandboxes that are being created, running, paused or stopped. A remote provider that takes\n" +
			"longer than 3s is skipped, unless --provider names it.",
		Example: "  sb ls\n" +
			"  sb ls --all --label team=ml --json\n" +
			"  sb terminate $(sb ls -q --app ci)",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runLs(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVarP(&opts.Select.All, "all", "a", false, "include sandboxes that exited, failed or were lost")
	opts.Select.RegisterFilters(app, cmd)
	cmd.Flags().BoolVar(&opts.Orphans, "orphans", false, "show only sandboxes whose owner is gone, and leftovers of "+
		"crashes")
	cli.JSONFlag(cmd, &opts.JSON, "an array of sandboxes as in inspect, oldest first")
	cli.QuietFlag(cmd, &opts.Quiet, "ids")
	return cmd
}

func runLs(ctx context.Context, opts *LsOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	filter, err := opts.Select.Filter()
	if err != nil {
		return err
	}
	filter.All, filter.Orphans = opts.Select.All, opts.Orphans
	first, rest, err := service.Sandboxes.ListSoon(ctx, filter, Soon)
	if err != nil {
		return err
	}
	// On a terminal the user sees the first results at once and later ones below them. Programs get one list.
	early := opts.App.Streams.OutTTY() && !opts.JSON && !opts.Quiet && len(first.Sandboxes) > 0
	if early {
		if err := writeSandboxes(opts, first.Sandboxes); err != nil {
			return err
		}
		first.Sandboxes = nil
	}
	late := rest()
	boxes := slices.Concat(first.Sandboxes, late.Sandboxes)
	slices.SortStableFunc(boxes, func(a, b core.Sandbox) int { return a.Created.Compare(b.Created) })
	if !early || len(boxes) > 0 {
		if err := writeSandboxes(opts, boxes); err != nil {
			return err
		}
	}
	return opts.App.WarnUnavailable(append(first.Failures, late.Failures...), filter.Provider != "")
}

// Soon bounds the wait for all providers, before the sandboxes found so far are shown.
const Soon = 500 * time.Millisecond

func writeSandboxes(opts *LsOptions, boxes []core.Sandbox) error {
	out := opts.App.Streams.Out
	switch {
	case opts.JSON:
		return output.List(out, boxes)
	case opts.Quiet:
		for _, box := range boxes {
			if _, err := fmt.Fprintln(out, box.ID); err != nil {
				return err
			}
		}
		return nil
	case len(boxes) == 0:
		if opts.App.Streams.ErrTTY() {
			_, _ = fmt.Fprintln(opts.App.Streams.Err, `no sandboxes; "sb launch" starts one, "sb ls --all" includes dead ones`)
		}
		return nil
	}
	now := opts.App.Now()
	headers := []string{"NAME", "ID", "PROVIDER", "APP", "STATE", "IMAGE", "AGE", "ENDS IN"}
	priced := slices.ContainsFunc(boxes, func(box core.Sandbox) bool { return box.Cost != nil })
	if priced {
		headers = append(headers, "COST")
	}
	table := opts.App.Table(headers...)
	for _, box := range boxes {
		cells := []string{
			box.Name, box.ID, box.Provider, box.App, cli.StateText(box), cli.ImageText(box), output.Age(box.Created, now),
			cli.EndsIn(box, now),
		}
		if priced {
			cells = append(cells, costText(box))
		}
		table.Row(cells...)
	}
	return table.Write(out)
}

func costText(box core.Sandbox) string {
	if box.Cost == nil {
		return ""
	}
	return box.Cost.String()
}
