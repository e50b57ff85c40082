package commands

import (
	"github.com/spf13/cobra"
)

// NewImageMount makes "sb image mount".
func NewImageMount(app *App) *cobra.Command {
	return &cobra.Command{
		Use: "mount SANDBOX IMAGE PATH", Short: "Mount an image in a sandbox that runs",
		Long: "Mount an image, such as what \"sb snapshot --path\" has kept of a directory, at an absolute path in a sandbox\n" +
			"that runs. There must be a directory. \"sb image unmount\" takes the image away and shows it again." + exitStatusHelp,
		Example: "  sb image mount dev im-0123456789abcdef /data",
		Args:    exactly("SANDBOX", "IMAGE", "PATH"), ValidArgsFunction: firstArg(app.completeSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			service, err := app.Service()
			if err != nil {
				return err
			}
			return service.MountImage(cmd.Context(), args[0], args[1], args[2])
		},
	}
}
