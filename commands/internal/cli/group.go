package cli

import "github.com/spf13/cobra"

// Group makes a command that only holds others. Without an argument it shows its help. For an unknown one, the error
// names the nearest.
func Group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return NoCommand(cmd, args[0])
	}
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[OnlyHolds] = "yes"
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(children...)
	return cmd
}

// OnlyHolds marks a command that only holds others.
const OnlyHolds = "sb-only-holds"

// NoCommand is the error for an unknown command of a group. It names the nearest.
func NoCommand(cmd *cobra.Command, word string) error {
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		return Usagef(cmd, "%s has no command %q; did you mean %q?", cmd.CommandPath(), word, near[0])
	}
	return Usagef(cmd, "%s has no command %q", cmd.CommandPath(), word)
}
