package commands

import (
	"github.com/spf13/cobra"
)

// NewLogin makes "sb login", which keeps credentials for providers.
func NewLogin(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use:     "login",
		Short:   "Keep credentials for a provider",
		Long:    "Keep credentials for a provider, where its own tools look for them." + exitStatusHelp,
		Example: "  sb login modal --token-id ak-123 <secret.txt",
	}, NewLoginModal(app, nil))
}
