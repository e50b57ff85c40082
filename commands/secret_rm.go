package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core/service"
)

// NewSecretRm makes "sb secret rm".
func NewSecretRm(app *App) *cobra.Command {
	return newStoreRm(app, storeRemoval{
		noun: "secret", short: "Remove secrets",
		long:    "Remove secrets that a provider keeps. On a terminal it asks first. Sandboxes that run keep what they have.",
		example: "  sb secret rm openai\n  sb secret rm --provider modal --yes openai",
		names:   secretNames,
		remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.RemoveSecret(ctx, provider, name)
		},
	})
}
