package assistants

import (
	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// NewServe makes "sb serve", which is "sb mcp" over HTTP.
func NewServe(app *cli.App) *cobra.Command {
	opts := &MCPOptions{App: app}
	flags := &mcpFlags{}
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve sandboxes over HTTP",
		Long: "Serve your sandboxes over HTTP: to programs below /api/v1, with an OpenAPI document at\n" +
			"/api/v1/openapi.json, and to AI assistants at /mcp. Each request needs a key: the local one, or\n" +
			"one of \"sb key create\".",
		Example: "  sb serve\n" +
			"  sb serve --port 16010 --max-sandboxes 3 --max-timeout 1h\n" +
			"  sb serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.apply(cmd, opts); err != nil {
				return err
			}
			return runMCP(cmd.Context(), opts)
		},
	}
	flags.transport = string(setup.StreamableHTTP)
	flags.Register(app, cmd, opts)
	return cmd
}
