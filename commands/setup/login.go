package setup

import (
	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
)

// NewLogin makes "sb login", which stores credentials for providers.
func NewLogin(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "login",
		Short:   "Store credentials for a provider",
		Long:    "Store credentials for a provider, where the provider's own tools look for them.",
		Example: "  sb login modal --token-id ak-123 <secret.txt",
	}, NewLoginModal(app))
}
