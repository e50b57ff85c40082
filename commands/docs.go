package commands

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
)

// DocsOptions holds the options of "sb docs".
type DocsOptions struct {
	App  *cli.App
	Root *cobra.Command
	Dir  string
}

// NewDocs makes the hidden "sb docs", which writes the reference of all commands as Markdown.
func NewDocs(app *cli.App) *cobra.Command {
	opts := &DocsOptions{App: app}
	return &cobra.Command{
		Use:    "docs DIR",
		Short:  "Write the reference of all commands as Markdown",
		Hidden: true,
		Args:   cli.Exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Root, opts.Dir = cmd.Root(), args[0]
			return runDocs(cmd.Context(), opts)
		},
	}
}

func runDocs(_ context.Context, opts *DocsOptions) error {
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return core.Wrap("docs", opts.Dir, err)
	}
	opts.Root.DisableAutoGenTag = true // the tag contains the date
	err := doc.GenMarkdownTree(opts.Root, opts.Dir)
	for _, child := range opts.Root.Commands() {
		if child.IsAdditionalHelpTopicCommand() && child.Name() != "help" {
			child.DisableAutoGenTag = true
			err = errors.Join(err, doc.GenMarkdownTree(child, opts.Dir))
		}
	}
	return core.Wrap("docs", opts.Dir, err)
}
