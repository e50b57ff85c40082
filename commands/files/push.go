package files

import (
	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core/transfer"
)

// NewPush makes "sb push".
func NewPush(app *cli.App) *cobra.Command {
	opts := &CopyOptions{App: app}
	cmd := &cobra.Command{
		Use:   "push SOURCE... SANDBOX[:PATH]",
		Short: "Copy local files into a sandbox",
		Long: "Copy local files into a sandbox (default: into its workdir). \"-\" is stdin; \"dir/\" means the\n" +
			"directory's content.",
		Example: "  sb push main.py dev\n  sb push --gitignore . dev:/app\n  sb push src/ dev:/app/src",
		Args:    cli.AtLeast("SOURCE", "SANDBOX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args[:len(args)-1] {
				opts.From = append(opts.From, transfer.Endpoint{Path: arg})
			}
			opts.To = inside(args[len(args)-1])
			return runCopy(cmd.Context(), opts)
		},
	}
	cmd.ValidArgsFunction = app.CompleteCopy
	opts.Register(cmd)
	return cmd
}
