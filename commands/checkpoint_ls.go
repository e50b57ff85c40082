package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewCheckpointLs makes "sb checkpoint ls".
func NewCheckpointLs(app *App) *cobra.Command {
	return newStoreLs(app, storeList[core.Checkpoint]{
		short: "List checkpoints", long: "List the checkpoints of all providers that keep some, or of one, oldest first.\n\"sb launch --checkpoint NAME\" goes on from one.",
		example: "  sb checkpoint ls\n  sb checkpoint ls --json",
		fields:  "name, id, provider, sandbox, of, created, expires, size, note, spec", quiet: "names",
		headers: []string{"NAME", "PROVIDER", "OF", "SIZE", "AGE", "ENDS IN"},
		list: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.Checkpoint], error) {
			return svc.Checkpoints(ctx, provider)
		},
		row: func(app *App, c core.Checkpoint) []string {
			return []string{c.Name, c.Provider, c.Of, sizeText(c.Size), app.since(c.Created), until(c.Expires, app.Now())}
		},
		id:   func(c core.Checkpoint) string { return c.Name },
		note: func(c core.Checkpoint) string { return c.Note },
	})
}
