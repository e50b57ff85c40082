package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NoArgs accepts no argument.
func NoArgs(cmd *cobra.Command, args []string) error { return Exactly()(cmd, args) }

// Exactly accepts one argument for each name. Errors name the missing one.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := AtLeast(names...)(cmd, args); err != nil {
			return err
		}
		if len(args) > len(names) {
			return Usagef(cmd, "%s takes no argument %q", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// AtLeast accepts the named arguments and more of the last.
func AtLeast(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return Usagef(cmd, "%s needs %s", cmd.CommandPath(), strings.Join(names[len(args):], " and "))
		}
		if i := slices.Index(args[:len(names)], ""); i >= 0 {
			return Usagef(cmd, "%s: %s is empty", cmd.CommandPath(), names[i])
		}
		return nil
	}
}

// Between checks for the required names and at most the optional ones.
func Between(required []string, optional ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := AtLeast(required...)(cmd, args); err != nil {
			return err
		}
		if most := len(required) + len(optional); len(args) > most {
			return Usagef(cmd, "%s takes no argument %q", cmd.CommandPath(), args[most])
		}
		// An empty word is a variable that was not set, not a wish for the default.
		if i := slices.Index(args[len(required):], ""); i >= 0 {
			return Usagef(cmd, "%s: %s is empty", cmd.CommandPath(), optional[i])
		}
		return nil
	}
}

// Group makes a command that only holds others: without a word it shows its
// help, with an unknown one it names the nearest.
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

// NoCommand says that a group has no command of that name, and names the nearest.
func NoCommand(cmd *cobra.Command, word string) error {
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		return Usagef(cmd, "%s has no command %q; did you mean %q?", cmd.CommandPath(), word, near[0])
	}
	return Usagef(cmd, "%s has no command %q", cmd.CommandPath(), word)
}

// JSONFlag adds --json; fields documents what it prints.
func JSONFlag(cmd *cobra.Command, value *bool, fields string) {
	cmd.Flags().BoolVar(value, "json", false, "print JSON: "+fields)
}

// QuietFlag adds -q; what names the text that it prints.
func QuietFlag(cmd *cobra.Command, value *bool, what string) {
	cmd.Flags().BoolVarP(value, "quiet", "q", false, "print only "+what)
}

// SplitCommand separates the sandbox from the command that follows it. Flags may
// stand before and after the sandbox; the first word of the command ends them,
// and "--" does as well. The words of the command are untouched.
func SplitCommand(cmd *cobra.Command, args []string) (sandbox string, command []string, err error) {
	if len(args) == 0 || args[0] == "" {
		return "", nil, Usagef(cmd, "%s needs SANDBOX", cmd.CommandPath())
	}
	flags := cmd.Flags()
	if flags.ArgsLenAtDash() == 0 {
		return args[0], args[1:], nil
	}
	if err := flags.Parse(args[1:]); err != nil {
		return "", nil, cmd.FlagErrorFunc()(cmd, err)
	}
	if help, helpErr := flags.GetBool("help"); helpErr == nil && help {
		return "", nil, pflag.ErrHelp
	}
	return args[0], flags.Args(), nil
}
