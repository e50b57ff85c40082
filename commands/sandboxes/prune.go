package sandboxes

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// PruneOptions are the options of prune.
type PruneOptions struct {
	App    *cli.App
	Select service.PruneOptions
	Yes    bool
	JSON   bool
}

// NewPrune makes "sb prune".
func NewPrune(app *cli.App) *cobra.Command {
	opts := &PruneOptions{App: app}
	var olderThan cli.DurationValue
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove dead sandboxes and leftovers of crashes",
		Long: "Remove sandboxes that exited, failed, were lost, or whose owner or lease is gone, and leftovers of\n" +
			"crashes. On a terminal it lists them and asks; elsewhere it needs --yes or --dry-run.",
		Example: "  sb prune --dry-run\n  sb prune --yes --older-than 24h",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Select.OlderThan = time.Duration(olderThan)
			return runPrune(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVar(&opts.Select.DryRun, "dry-run", false, "show what would be removed; remove nothing")
	cmd.Flags().Var(&olderThan, "older-than", "keep sandboxes that ended more recently")
	cmd.Flags().BoolVar(
		&opts.Select.Checkpoints, "checkpoints", false, "remove checkpoints, too; --older-than keeps younger ones",
	)
	cmd.Flags().BoolVar(&opts.Select.AllOwners, "all-owners", false, cli.AllOwnersUsage)
	cmd.Flags().BoolVarP(&opts.Yes, "yes", "y", false, "do not ask")
	cli.JSONFlag(
		cmd, &opts.JSON,
		"an object: dry_run, sandboxes as in inspect, leftovers (provider, subject, why, size), others (how many of other "+
			"owners were left), checkpoints as in checkpoint ls, failures",
	)
	return cmd
}

func runPrune(ctx context.Context, opts *PruneOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	if !opts.Select.DryRun && !opts.Yes {
		preview := opts.Select
		preview.DryRun = true
		report, err := svc.Prune(ctx, preview)
		if err != nil {
			return err
		}
		if len(report.Sandboxes)+len(report.Leftovers)+len(report.Checkpoints) == 0 {
			report.DryRun = false
			return pruned(opts, report)
		}
		if err := pruneTable(opts.App, "TO REMOVE", report).Write(opts.App.Streams.Err); err != nil {
			return err
		}
		what := output.Count(len(report.Sandboxes), "sandbox", "sandboxes")
		if opts.Select.Checkpoints {
			what += ", " + output.Count(len(report.Checkpoints), "checkpoint", "checkpoints")
		}
		question := fmt.Sprintf("Remove %s and %s?", what, output.Count(len(report.Leftovers), "leftover", "leftovers"))
		if err := cli.Confirm(opts.App, question, "--yes"); err != nil {
			return err
		}
	}
	report, err := svc.Prune(ctx, opts.Select)
	if err != nil {
		return err
	}
	return pruned(opts, report)
}

// pruneTable lists the items of a report, with names and sizes.
func pruneTable(app *cli.App, title string, report core.PruneReport) *output.Table {
	table := app.Table("PROVIDER", title, "NAME", "WHY", "SIZE")
	for _, box := range report.Sandboxes {
		why := cli.StateText(box)
		if box.Spec.Persist {
			why += ", persistent"
		}
		table.Row(box.Provider, box.ID, box.Name, why, cli.SizeText(box.Size))
	}
	for _, c := range report.Checkpoints {
		table.Row(c.Provider, "checkpoint", c.Name, "of "+c.Of, c.Size.String())
	}
	for _, l := range report.Leftovers {
		table.Row(l.Provider, l.Subject, "", l.Why, cli.SizeText(l.Size))
	}
	return table
}

// pruned prints the removed items.
func pruned(opts *PruneOptions, report core.PruneReport) error {
	cli.TellOthers(opts.App, report.Others)
	if opts.JSON {
		if err := output.JSON(opts.App.Streams.Out, report); err != nil {
			return err
		}
		return cli.Failures(report.Failures)
	}
	if len(report.Sandboxes)+len(report.Leftovers)+len(report.Checkpoints) > 0 {
		if opts.Select.DryRun {
			_, _ = fmt.Fprintln(opts.App.Streams.Err, "nothing was removed; these would be:")
		}
		if err := pruneTable(opts.App, "REMOVED", report).Write(opts.App.Streams.Out); err != nil {
			return err
		}
	} else if opts.App.Streams.ErrTTY() {
		_, _ = fmt.Fprintln(opts.App.Streams.Err, "nothing to remove")
	}
	return cli.Failures(report.Failures)
}
