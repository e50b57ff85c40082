package commands

import (
	"github.com/spf13/cobra"
)

// NewExport makes "sb export", which holds what a sandbox can be written down as.
func NewExport(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use:     "export",
		Short:   "Write down how a sandbox came to be",
		Long:    "Write down how a sandbox came to be, so that it can be made again elsewhere." + exitStatusHelp,
		Example: "  sb export dockerfile dev > Dockerfile",
	}, NewExportDockerfile(app, nil))
}
