package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewVolumeLs makes "sb volume ls".
func NewVolumeLs(app *App) *cobra.Command {
	return newStoreLs(app, storeList[core.VolumeInfo]{
		short: "List volumes", long: "List the volumes of all providers that keep some, or of one.",
		example: "  sb volume ls\n  sb volume ls --provider modal --json",
		fields:  "name, id, provider, created, size, version", quiet: "names",
		headers: []string{"NAME", "PROVIDER", "SIZE", "AGE"},
		list: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.VolumeInfo], error) {
			return svc.Volumes(ctx, provider)
		},
		row: func(app *App, v core.VolumeInfo) []string {
			return []string{v.Name, v.Provider, sizeText(v.Size), app.since(v.Created)}
		},
		id: func(v core.VolumeInfo) string { return v.Name },
	})
}

// volumeNames are for completion.
func volumeNames(ctx context.Context, svc *service.Service) []string {
	found, err := svc.Volumes(ctx, "")
	return named(found, err, func(v core.VolumeInfo) []string { return []string{v.Name} })
}
