package commands

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewSnapshotLs makes "sb snapshot ls".
func NewSnapshotLs(app *App) *cobra.Command {
	return newStoreLs(app, storeList[core.Snapshot]{
		short: "List snapshots", long: "List the snapshots of all providers that keep some, or of one. \"sb launch --snapshot ID\" starts from one.",
		example: "  sb snapshot ls\n  sb snapshot ls --provider docker --json",
		fields:  "id, name, provider, sandbox, created, expires, path, size, note", quiet: "ids",
		headers: []string{"ID", "NAME", "PROVIDER", "SANDBOX", "SIZE", "AGE", "ENDS IN"},
		list: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.Snapshot], error) {
			return svc.Snapshots(ctx, provider)
		},
		row: func(app *App, s core.Snapshot) []string {
			return []string{s.ID, s.Name, s.Provider, s.Sandbox, sizeText(s.Size), app.since(s.Created), until(s.Expires, app.Now())}
		},
		id:   func(s core.Snapshot) string { return s.ID },
		note: func(s core.Snapshot) string { return s.Note },
	})
}

// until is the time left, or "" when there is no end.
func until(end, now time.Time) string {
	if end.IsZero() {
		return ""
	}
	return output.Span(end.Sub(now))
}

// snapshotIDs are for completion.
func snapshotIDs(ctx context.Context, svc *service.Service) []string {
	found, err := svc.Snapshots(ctx, "")
	return named(found, err, func(s core.Snapshot) []string { return []string{s.ID} })
}
