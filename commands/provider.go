package commands

import (
	"github.com/spf13/cobra"
)

// NewProvider makes "sb provider", which holds what concerns providers.
func NewProvider(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use:     "provider",
		Aliases: []string{"providers"},
		Short:   "Look at the places where sandboxes run",
		Long:    "Look at the places where sandboxes run." + exitStatusHelp,
		Example: "  sb provider ls",
	}, NewProviderLs(app, nil))
}
