package assistants

import (
	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
)

// NewMCPUninstall makes "sb mcp uninstall".
func NewMCPUninstall(app *cli.App) *cobra.Command {
	opts := &MCPInstallOptions{App: app, Uninstall: true}
	cmd := &cobra.Command{
		Use:   "uninstall [flags] --client CLIENT",
		Short: "Remove sb from an assistant's configuration",
		Long: "Remove the entry of \"sb mcp install\" from an assistant's configuration. The previous file is saved\n" +
			"beside it, and a file that has nothing else is removed.",
		Example: "  sb mcp uninstall --client claude-code\n  sb mcp uninstall --client cursor --project .",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.Check(cmd); err != nil {
				return err
			}
			return runMCPInstall(cmd.Context(), opts)
		},
	}
	opts.Register(cmd)
	return cmd
}
