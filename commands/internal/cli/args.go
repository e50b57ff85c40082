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

// Between checks that the arguments have all required names and at most the optional ones.
func Between(required []string, optional ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := AtLeast(required...)(cmd, args); err != nil {
			return err
		}
		if most := len(required) + len(optional); len(args) > most {
			return Usagef(cmd, "%s takes no argument %q", cmd.CommandPath(), args[most])
		}
		// An empty word is a variable that was not set. It does not request the default.
		if i := slices.Index(args[len(required):], ""); i >= 0 {
			return Usagef(cmd, "%s: %s is empty", cmd.CommandPath(), optional[i])
		}
		return nil
	}
}

// SplitCommand separates the sandbox from the command that follows it. Flags may stand before and after the sandbox.
// The first word of the command, or "--", ends them. The words of the command are not changed.
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
