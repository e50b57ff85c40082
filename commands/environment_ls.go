package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewEnvironmentLs makes "sb environment ls".
func NewEnvironmentLs(app *App) *cobra.Command {
	return newStoreLs(app, storeList[core.EnvironmentInfo]{
		short: "List environments", long: "List the environments of all providers that have some, or of one.",
		example: "  sb environment ls\n  sb environment ls --provider modal --json",
		fields:  "name, provider, current", quiet: "names",
		headers: []string{"NAME", "PROVIDER", "CURRENT"},
		list: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.EnvironmentInfo], error) {
			return svc.Environments(ctx, provider)
		},
		row: func(_ *App, e core.EnvironmentInfo) []string {
			return []string{e.Name, e.Provider, yesNo(e.Current)}
		},
		id: func(e core.EnvironmentInfo) string { return e.Name },
	})
}

// environmentNames are for completion.
func environmentNames(ctx context.Context, svc *service.Service) []string {
	found, err := svc.Environments(ctx, "")
	return named(found, err, func(e core.EnvironmentInfo) []string { return []string{e.Name} })
}
