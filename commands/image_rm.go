package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core/service"
)

// NewImageRm makes "sb image rm".
func NewImageRm(app *App) *cobra.Command {
	return newStoreRm(app, storeRemoval{
		noun: "image", short: "Remove images",
		long: "Remove images that a provider has at hand, by name or id. On a terminal it asks first. One that a sandbox\n" +
			"runs from is kept.",
		example: "  sb image rm python:3.12\n  sb image rm --provider docker --yes python:3.12",
		names:   imageNames,
		remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.RemoveImage(ctx, provider, name)
		},
	})
}
