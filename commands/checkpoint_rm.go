package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// CheckpointRmOptions are what checkpoint rm works with.
type CheckpointRmOptions struct {
	App   *App
	Names []string
}

// NewCheckpointRm makes "sb checkpoint rm".
func NewCheckpointRm(app *App, runF func(context.Context, *CheckpointRmOptions) error) *cobra.Command {
	opts := &CheckpointRmOptions{App: app}
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove checkpoints",
		Long: "Remove checkpoints, named as NAME or PROVIDER/NAME, and print what was removed. Sandboxes that were\n" +
			"launched from them go on." + exitStatusHelp,
		Example:           "  sb checkpoint rm warm",
		Args:              atLeast("NAME"),
		ValidArgsFunction: app.completeCheckpoints,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Names = args
			return orRun(runF, runCheckpointRm)(cmd.Context(), opts)
		},
	}
}

func runCheckpointRm(ctx context.Context, opts *CheckpointRmOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range opts.Names {
		if err := service.RemoveCheckpoint(ctx, name); err != nil {
			failed = append(failed, err)
			continue
		}
		if _, err := fmt.Fprintln(opts.App.Streams.Out, name); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}
