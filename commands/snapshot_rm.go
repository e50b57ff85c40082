package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewSnapshotRm makes "sb snapshot rm".
func NewSnapshotRm(app *App) *cobra.Command {
	return newStoreRm(app, storeRemoval{
		noun: "snapshot", short: "Remove snapshots",
		long:    "Remove snapshots by their ids. On a terminal it asks first. One that a sandbox still needs is kept.",
		example: "  sb snapshot rm localhost/sb-snapshot/dev:20260102-150405",
		names:   snapshotIDs,
		sizes: func(ctx context.Context, svc *service.Service, provider string) map[string]core.Bytes {
			found, err := svc.Snapshots(ctx, provider)
			return sizesOf(found, err, func(kept core.Snapshot) (string, core.Bytes) { return kept.ID, kept.Size })
		},
		remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.RemoveSnapshot(ctx, provider, name)
		},
	})
}
