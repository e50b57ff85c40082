package commands

import "github.com/spf13/cobra"

// NewEnvironment makes "sb environment", which holds what concerns a provider's environments.
func NewEnvironment(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use: "environment", Aliases: []string{"environments"}, Short: "A provider's environments, with volumes, secrets and apps of their own",
		Long: "List, make and remove the environments of a provider: spaces with volumes, secrets and apps of their own, as\n" +
			"Modal has them. MODAL_ENVIRONMENT says in which one sb works." + exitStatusHelp,
		Example: "  sb environment create staging\n  sb environment ls\n  sb environment rm staging",
	}, NewEnvironmentLs(app), NewEnvironmentCreate(app), NewEnvironmentRm(app))
}
