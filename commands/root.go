package commands

import (
	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/assistants"
	"github.com/seed-0724f904/sb/commands/exec"
	"github.com/seed-0724f904/sb/commands/files"
	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/sandboxes"
	"github.com/seed-0724f904/sb/commands/setup"
	"github.com/seed-0724f904/sb/commands/stores"
	"github.com/seed-0724f904/sb/commands/watch"
	"github.com/seed-0724f904/sb/core"
)

// NewRoot makes the command tree.
func NewRoot(app *cli.App) *cobra.Command {
	root := cli.Group(&cobra.Command{
		Use:   "sb",
		Short: "Run code that you do not trust in sandboxes",
		Long: "sb runs commands in sandboxes: isolated machines on this computer, on a container engine or in the cloud.\n" +
			"SANDBOX is a name, an id, a unique prefix of an id, or PROVIDER/NAME. Results go to stdout, messages to\n" +
			"stderr; --json prints both as JSON. \"sb help exit-codes\" lists the exit codes.",
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
	version, only := false, root.RunE
	root.Flags().BoolVar(&version, "version", false, "print the version, as \"sb version\" does")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if version && len(args) == 0 {
			return setup.RunVersion(cmd.Context(), &setup.VersionOptions{App: app})
		}
		return only(cmd, args)
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
		return cli.Usagef(cmd, "%s", err)
	})

	add := func(id, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, cmd := range commands {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	add("sandboxes", "Sandboxes:",
		sandboxes.NewRun(app), sandboxes.NewLaunch(app, nil), sandboxes.NewLs(app),
		sandboxes.NewInspect(app),
		sandboxes.NewPort(app), sandboxes.NewTunnel(app), sandboxes.NewPolicy(app),
		sandboxes.NewStop(app), sandboxes.NewStart(app), sandboxes.NewPause(app),
		sandboxes.NewResume(app), sandboxes.NewTimeout(app),
		sandboxes.NewSnapshot(app), sandboxes.NewMove(app), sandboxes.NewFork(app),
		sandboxes.NewCheckpoint(app), sandboxes.NewExport(app),
		sandboxes.NewTerminate(app), sandboxes.NewPrune(app))
	add("commands", "Commands in sandboxes:",
		exec.NewExec(app, nil), exec.NewShell(app), exec.NewAttach(app), exec.NewPs(app),
		exec.NewLogs(app), exec.NewWait(app), exec.NewKill(app))
	add("files", "Files:",
		files.NewCp(app), files.NewPush(app), files.NewPull(app), files.NewFs(app))
	add("kept", "Provider resources:",
		stores.NewApp(app), stores.NewVolume(app), stores.NewSecret(app), stores.NewImage(app),
		stores.NewEnvironment(app))
	add("watch", "Monitoring:",
		watch.NewUI(app), watch.NewTop(app), watch.NewStats(app), watch.NewEvents(app),
		watch.NewHistory(app), watch.NewCost(app))
	add("assistants", "Assistants:", assistants.NewMCP(app), assistants.NewKey(app))
	add("setup", "Setup:",
		setup.NewDoctor(app), setup.NewLogin(app), setup.NewModal(app), setup.NewProvider(app),
		setup.NewConfig(app), setup.NewCompletion(app), setup.NewVersion(app))
	root.SetHelpCommandGroupID("setup")
	root.AddCommand(NewDocs(app), newExitCodes())
	return root
}
