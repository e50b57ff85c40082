package commands

import (
	"github.com/spf13/cobra"
)

// NewImageUnmount makes "sb image unmount".
func NewImageUnmount(app *App) *cobra.Command {
	return &cobra.Command{
		Use: "unmount SANDBOX PATH", Short: "Take a mounted image away",
		Long:    "Take away what \"sb image mount\" has mounted at a path of a sandbox." + exitStatusHelp,
		Example: "  sb image unmount dev /data",
		Args:    exactly("SANDBOX", "PATH"), ValidArgsFunction: app.completePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			service, err := app.Service()
			if err != nil {
				return err
			}
			return service.UnmountImage(cmd.Context(), args[0], args[1])
		},
	}
}
