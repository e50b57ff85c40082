package commands

import (
	"context"

	"github.com/spf13/cobra"
)

// NewMCPUninstall makes "sb mcp uninstall".
func NewMCPUninstall(app *App, runF func(context.Context, *MCPInstallOptions) error) *cobra.Command {
	opts := &MCPInstallOptions{App: app, Uninstall: true}
	cmd := &cobra.Command{
		Use:     "uninstall [flags] --client CLIENT",
		Short:   "Take sb out of an assistant's configuration",
		Long:    "Take what \"sb mcp install\" wrote out of an assistant's configuration. The file before is kept beside it." + exitStatusHelp,
		Example: "  sb mcp uninstall --client claude-code\n  sb mcp uninstall --client cursor --project .",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.check(cmd); err != nil {
				return err
			}
			return orRun(runF, runMCPInstall)(cmd.Context(), opts)
		},
	}
	opts.register(cmd)
	return cmd
}
