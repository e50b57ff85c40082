package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core/service"
)

// NewEnvironmentRm makes "sb environment rm".
func NewEnvironmentRm(app *App) *cobra.Command {
	return newStoreRm(app, storeRemoval{
		noun: "environment", short: "Remove environments with everything in them", ask: true,
		long:    "Remove environments with their apps, sandboxes, volumes and secrets. It asks first, or needs --yes.",
		example: "  sb environment rm staging --yes",
		names:   environmentNames,
		remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.RemoveEnvironment(ctx, provider, name)
		},
	})
}
