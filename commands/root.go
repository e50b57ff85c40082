package commands

import (
	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/setup"
	"github.com/seed-0724f904/sb/core"
)

// NewRoot makes the command tree.
func NewRoot(app *cli.App) *cobra.Command { return newRoot(app, nil) }

// newRoot makes the part of the command tree that args need. Most calls name one command first. The others are not made
// then: their flags cost more than the rest of the start. Help, completion and misspelled commands need the whole tree.
func newRoot(app *cli.App, args []string) *cobra.Command {
	root := cli.Group(&cobra.Command{
		Use:   "sb",
		Short: "Run code that you do not trust in sandboxes",
		Long: "sb runs commands in sandboxes: isolated machines on this computer, on a container engine or in the\n" +
			"cloud. SANDBOX is a name, an id, a unique prefix of an id, or PROVIDER/NAME.",
		Example: "  sb run -- python3 -c 'print(6*7)'\n" +
			"  sb launch --name dev\n" +
			"  sb exec dev uname -a\n" +
			"  sb push src dev:/app\n" +
			"  sb shell dev\n" +
			"  sb terminate dev",
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(newHelp())
	version, noCommand := false, root.RunE
	root.Flags().BoolVar(&version, "version", false, "print the version, as \"sb version\" does")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if version && len(args) == 0 {
			return setup.RunVersion(cmd.Context(), &setup.VersionOptions{App: app})
		}
		return noCommand(cmd, args)
	}
	root.PersistentFlags().StringVar(&app.ConfigFile, "config", "", "read this configuration file")
	root.SetIn(app.Streams.In)
	root.SetOut(app.Streams.Out)
	root.SetErr(app.Streams.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// An unknown flag of a group usually belongs to a misspelled command.
		if words := cmd.Flags().Args(); cmd.Annotations[cli.OnlyHolds] != "" && len(words) > 0 {
			return cli.NoCommand(cmd, words[0])
		}
		if hint := core.HintOf(err); hint != "" {
			return core.Errorf(core.KindUsage, cmd.Name(), "", "%s", err).WithHint("%s", hint)
		}
		if near := cli.NearFlag(cmd, err); near != "" {
			return cli.Usagef(cmd, "%s; did you mean --%s?", err, near)
		}
		return cli.Usagef(cmd, "%s", err)
	})

	for _, group := range only(args) {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, command := range group.commands {
			cmd := command.make(app)
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID("setup")
	root.AddCommand(NewDocs(app), newExitCodes())
	return root
}
