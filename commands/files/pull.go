package files

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core/transfer"
)

// NewPull makes "sb pull".
func NewPull(app *cli.App) *cobra.Command {
	opts := &CopyOptions{App: app}
	cmd := &cobra.Command{
		Use:   "pull SANDBOX:PATH... [TARGET]",
		Short: "Copy files from a sandbox to this machine",
		Long: "Copy files from a sandbox to this machine (default: into the current directory). With TARGET \"-\" the\n" +
			"output goes to stdout, a directory as a tar archive.",
		Example: "  sb pull dev:/app/out.csv\n  sb pull dev:/app/logs ./logs\n  sb pull 'dev:/app/*.log' logs\n  sb pull " +
			"dev:/app/out.csv -",
		Args: cli.AtLeast("SANDBOX:PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.To = transfer.Endpoint{Path: "."}
			sources := args
			if last := args[len(args)-1]; len(args) > 1 && (!strings.Contains(last, ":") || strings.HasPrefix(last, ".") ||
				strings.HasPrefix(last, "/")) {
				sources, opts.To.Path = args[:len(args)-1], last
			}
			for _, arg := range sources {
				if !strings.Contains(arg, ":") {
					return cli.Usagef(cmd, "%q names no path in a sandbox; write SANDBOX:PATH", arg)
				}
				opts.From = append(opts.From, inside(arg))
			}
			return runCopy(cmd.Context(), opts)
		},
	}
	cmd.ValidArgsFunction = app.CompleteCopy
	opts.Register(cmd)
	opts.registerIncludeGit(cmd)
	return cmd
}
