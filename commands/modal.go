package commands

import (
	"github.com/spf13/cobra"
)

// NewModal makes "sb modal", which holds what concerns Modal.
func NewModal(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use:     "modal",
		Short:   "A Modal endpoint on this machine",
		Long:    "A Modal endpoint on this machine, for programs that use a Modal SDK." + exitStatusHelp,
		Example: "  sb modal serve",
	}, NewModalServe(app, nil))
}
