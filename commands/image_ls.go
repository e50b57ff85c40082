package commands

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewImageLs makes "sb image ls".
func NewImageLs(app *App) *cobra.Command {
	return newStoreLs(app, storeList[core.ImageInfo]{
		short: "List images", long: "List the images that providers have at hand. Any other that a registry has can be launched from, too,\nwhere the provider can get it.",
		example: "  sb image ls\n  sb image ls --provider docker --json",
		fields:  "id, names, provider, created, size", quiet: "ids",
		headers: []string{"NAME", "ID", "PROVIDER", "SIZE", "AGE"},
		list: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.ImageInfo], error) {
			return svc.Images(ctx, provider)
		},
		row: func(app *App, i core.ImageInfo) []string {
			return []string{strings.Join(i.Names, " "), shortID(i.ID), i.Provider, sizeText(i.Size), app.since(i.Created)}
		},
		id: func(i core.ImageInfo) string { return i.ID },
	})
}

// shortID cuts a digest to what tells images apart.
func shortID(id string) string {
	const enough = 12
	if hex, ok := strings.CutPrefix(id, "sha256:"); ok && len(hex) > enough {
		return hex[:enough]
	}
	return id
}

// imageNames are for completion.
func imageNames(ctx context.Context, svc *service.Service) []string {
	found, err := svc.Images(ctx, "")
	return named(found, err, func(i core.ImageInfo) []string { return i.Names })
}
