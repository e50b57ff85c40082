package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewVolumeRm makes "sb volume rm".
func NewVolumeRm(app *App) *cobra.Command {
	return newStoreRm(app, storeRemoval{
		noun: "volume", short: "Remove volumes with all that is on them",
		long: "Remove volumes with all that is on them. On a terminal it asks first. One that a sandbox has mounted\n" +
			"is kept. What some of several fail does not stop the others.",
		example: "  sb volume rm data\n  sb volume rm --provider modal --yes weights",
		names:   volumeNames,
		sizes: func(ctx context.Context, svc *service.Service, provider string) map[string]core.Bytes {
			found, err := svc.Volumes(ctx, provider)
			return sizesOf(found, err, func(kept core.VolumeInfo) (string, core.Bytes) { return kept.Name, kept.Size })
		},
		remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.RemoveVolume(ctx, provider, name)
		},
	})
}
