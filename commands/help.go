package commands

import (
	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
)

// newHelp makes "sb help".
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show help for a command",
		Long:    "Show the help of a command, as COMMAND --help does, or of a topic.",
		Example: "  sb help launch\n  sb help fs ls\n  sb help exit-codes",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var words []cobra.Completion
			if found, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, child := range found.Commands() {
					if child.IsAvailableCommand() || child.IsAdditionalHelpTopicCommand() {
						words = append(words, cobra.CompletionWithDesc(child.Name(), child.Short))
					}
				}
			}
			return words, cli.NoFiles
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 && found.Annotations[cli.OnlyHolds] != "" {
				return cli.NoCommand(found, rest[0])
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// newExitCodes makes the help topic "exit-codes".
func newExitCodes() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "List the exit codes of sb", Long: cli.ExitCodesHelp}
}
