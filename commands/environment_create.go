package commands

import (
	"github.com/spf13/cobra"
)

// NewEnvironmentCreate makes "sb environment create".
func NewEnvironmentCreate(app *App) *cobra.Command {
	flags := &storeFlags{}
	cmd := &cobra.Command{
		Use: "create ENVIRONMENT", Short: "Make an environment",
		Long:    "Make an empty environment and print its name." + exitStatusHelp,
		Example: "  sb environment create staging --provider modal",
		Args:    exactly("ENVIRONMENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			service, err := app.Service()
			if err != nil {
				return err
			}
			made, err := service.CreateEnvironment(cmd.Context(), flags.Provider, args[0])
			if err != nil {
				return err
			}
			return flags.tell(app, made, made.Name)
		},
	}
	flags.provider(app, cmd, "the provider `NAME` (default: the configured one, or the only one set up that can)")
	jsonFlag(cmd, &flags.JSON, "name, provider, current")
	return cmd
}
