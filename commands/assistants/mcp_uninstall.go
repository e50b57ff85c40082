package assistants

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
)

// NewMCPUninstall makes "sb mcp uninstall".
func NewMCPUninstall(app *cli.App, runF func(context.Context, *MCPInstallOptions) error) *cobra.Command {
	opts := &MCPInstallOptions{App: app, Uninstall: true}
	cmd := &cobra.Command{
		Use:     "uninstall [flags] --client CLIENT",
		Short:   "Take sb out of an assistant's configuration",
		Long:    "Take what \"sb mcp install\" wrote out of an assistant's configuration. The file before is kept beside it." + cli.ExitStatusHelp,
		Example: "  sb mcp uninstall --client claude-code\n  sb mcp uninstall --client cursor --project .",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.Check(cmd); err != nil {
				return err
			}
			return cli.OrRun(runF, runMCPInstall)(cmd.Context(), opts)
		},
	}
	opts.Register(cmd)
	return cmd
}
