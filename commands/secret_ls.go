package commands

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewSecretLs makes "sb secret ls".
func NewSecretLs(app *App) *cobra.Command {
	return newStoreLs(app, storeList[core.SecretInfo]{
		short: "List secrets", long: "List the secrets of all providers that keep some, or of one: their names, never their values.",
		example: "  sb secret ls\n  sb secret ls --provider modal --json",
		fields:  "name, id, provider, created, last_used, keys (where the provider tells them)", quiet: "names",
		headers: []string{"NAME", "PROVIDER", "KEYS", "AGE", "LAST USED"},
		list: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.SecretInfo], error) {
			return svc.Secrets(ctx, provider)
		},
		row: func(app *App, s core.SecretInfo) []string {
			return []string{s.Name, s.Provider, strings.Join(s.Keys, " "), app.since(s.Created), app.since(s.LastUsed)}
		},
		id: func(s core.SecretInfo) string { return s.Name },
	})
}

// secretNames are for completion.
func secretNames(ctx context.Context, svc *service.Service) []string {
	found, err := svc.Secrets(ctx, "")
	return named(found, err, func(s core.SecretInfo) []string { return []string{s.Name} })
}
