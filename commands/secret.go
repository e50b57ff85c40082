package commands

import "github.com/spf13/cobra"

// NewSecret makes "sb secret", which holds what concerns secrets that providers keep.
func NewSecret(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use: "secret", Short: "Secrets that providers keep",
		Long: "List, make and remove the secrets that providers keep: environment variables under one name, whose values\n" +
			"nobody gets back. \"sb launch --secret-ref KEY=NAME\" gives one to a sandbox." + exitStatusHelp,
		Example: "  sb secret create openai OPENAI_API_KEY\n  sb launch --provider modal --secret-ref OPENAI_API_KEY=openai\n  sb secret ls",
	}, NewSecretLs(app), NewSecretCreate(app), NewSecretRm(app))
}
