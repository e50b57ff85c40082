package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewCheckpointRm makes "sb checkpoint rm".
func NewCheckpointRm(app *App) *cobra.Command {
	return newStoreRm(app, storeRemoval{
		noun: "checkpoint", short: "Remove checkpoints",
		long: "Remove checkpoints by their names. On a terminal it asks first. Sandboxes that were launched from them go on.\n" +
			"Modal removes none before its time: its checkpoints are forgotten, and end when \"sb checkpoint ls\" said.",
		example: "  sb checkpoint rm warm",
		names:   checkpointNames,
		sizes: func(ctx context.Context, svc *service.Service, provider string) map[string]core.Bytes {
			found, err := svc.Checkpoints(ctx, provider)
			return sizesOf(found, err, func(kept core.Checkpoint) (string, core.Bytes) { return kept.Name, kept.Size })
		},
		remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.RemoveCheckpoint(ctx, provider, name)
		},
	})
}
