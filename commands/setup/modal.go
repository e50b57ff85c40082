package setup

import (
	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
)

// NewModal makes "sb modal", the group of commands for Modal.
func NewModal(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "modal",
		Short:   "Serve a Modal endpoint on this machine",
		Long:    "Serve a Modal endpoint on this machine, for programs that use a Modal SDK.",
		Example: "  sb modal serve",
	}, NewModalServe(app))
}
