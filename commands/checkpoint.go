package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewCheckpoint makes "sb checkpoint".
func NewCheckpoint(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use:     "checkpoint",
		Example: "  sb checkpoint create dev --name warm\n  sb launch --checkpoint warm\n  sb checkpoint rm warm",
		Short:   "Sandboxes kept as they were, memory included",
		Long: "Keep running sandboxes, memory and files, under a name, and launch others that go on from there.\n\n" +
			"A checkpoint holds what the processes held in memory, secrets included: it is as secret as the sandbox\n" +
			"was. On this machine it lies in the state directory, readable for you alone." + exitStatusHelp,
	}, NewCheckpointCreate(app, nil), NewCheckpointLs(app), NewCheckpointRm(app))
}

// checkpointNames are for completion.
func checkpointNames(ctx context.Context, svc *service.Service) []string {
	found, err := svc.Checkpoints(ctx, "")
	return named(found, err, func(c core.Checkpoint) []string { return []string{c.Name} })
}
