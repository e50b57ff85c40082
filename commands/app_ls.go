package commands

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewAppLs makes "sb app ls".
func NewAppLs(app *App) *cobra.Command {
	return newStoreLs(app, storeList[core.AppInfo]{
		short: "List apps", long: "List the apps of all providers, or of one, with how many sandboxes live in them. Where an app is only a\nlabel it is there as long as a sandbox is.",
		example: "  sb app ls\n  sb app ls --provider modal --json",
		fields:  "name, id, provider, state, created, sandboxes", quiet: "names",
		headers: []string{"NAME", "PROVIDER", "SANDBOXES", "STATE", "AGE"},
		list: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.AppInfo], error) {
			return svc.Apps(ctx, provider)
		},
		row: func(app *App, a core.AppInfo) []string {
			return []string{a.Name, a.Provider, strconv.Itoa(a.Sandboxes), a.State, app.since(a.Created)}
		},
		id: func(a core.AppInfo) string { return a.Name },
	})
}
