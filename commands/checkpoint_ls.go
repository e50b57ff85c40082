package commands

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
)

// CheckpointLsOptions are what checkpoint ls works with.
type CheckpointLsOptions struct {
	App   *App
	JSON  bool
	Quiet bool
}

// NewCheckpointLs makes "sb checkpoint ls".
func NewCheckpointLs(app *App, runF func(context.Context, *CheckpointLsOptions) error) *cobra.Command {
	opts := &CheckpointLsOptions{App: app}
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List checkpoints",
		Long:    "List checkpoints, oldest first. A provider that does not answer is named on stderr and hides no other." + exitStatusHelp,
		Example: "  sb checkpoint ls\n  sb checkpoint ls --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return orRun(runF, runCheckpointLs)(cmd.Context(), opts)
		},
	}
	jsonFlag(cmd, &opts.JSON, "an array of name, provider, sandbox, of, created, size, spec")
	quietFlag(cmd, &opts.Quiet, "the names")
	return cmd
}

func runCheckpointLs(ctx context.Context, opts *CheckpointLsOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	listing, err := service.Checkpoints(ctx)
	if err != nil {
		return err
	}
	switch {
	case opts.JSON:
		err = output.List(opts.App.Streams.Out, listing.Checkpoints)
	case opts.Quiet:
		for _, c := range listing.Checkpoints {
			if _, err := fmt.Fprintln(opts.App.Streams.Out, c.Name); err != nil {
				return err
			}
		}
	default:
		table := opts.App.table("NAME", "PROVIDER", "OF", "CREATED", "SIZE")
		for _, c := range listing.Checkpoints {
			table.Row(c.Name, c.Provider, c.Of, output.Age(c.Created, opts.App.Now()), c.Size.String())
		}
		err = table.Write(opts.App.Streams.Out)
	}
	if err != nil {
		return err
	}
	return failures(listing.Failures)
}
