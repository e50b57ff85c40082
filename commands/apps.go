package commands

import "github.com/spf13/cobra"

// NewApp makes "sb app", which holds what concerns apps.
func NewApp(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use: "app", Aliases: []string{"apps"}, Short: "Apps, which group sandboxes",
		Long:    "List and stop apps. \"sb launch --app NAME\" puts a sandbox into one." + exitStatusHelp,
		Example: "  sb app ls\n  sb app stop ci --yes",
	}, NewAppLs(app), NewAppStop(app))
}
