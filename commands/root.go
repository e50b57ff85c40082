package commands

import (
	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
)

// NewRoot makes the command tree.
func NewRoot(app *App) *cobra.Command {
	root := group(&cobra.Command{
		Use:   "sb",
		Short: "Sandboxes for code that you do not trust",
		Long: "sb runs commands in sandboxes: isolated machines on this computer, on a container engine or in\n" +
			"the cloud. A SANDBOX is named by its name, its id, a unique beginning of its id, or\n" +
			"PROVIDER/NAME. Stdout is data, stderr is talk; --json prints JSON, errors included." + exitStatusHelp,
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
			return runVersion(cmd.Context(), &VersionOptions{App: app})
		}
		return only(cmd, args)
	}
	root.PersistentFlags().StringVar(&app.ConfigFile, "config", "", "read this configuration file")
	root.SetIn(app.Streams.In)
	root.SetOut(app.Streams.Out)
	root.SetErr(app.Streams.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// A flag that a group does not know most often belongs to a command whose name is not right.
		if words := cmd.Flags().Args(); cmd.Annotations[onlyHolds] != "" && len(words) > 0 {
			return noCommand(cmd, words[0])
		}
		if hint := core.HintOf(err); hint != "" {
			return core.Errorf(core.KindUsage, cmd.Name(), "", "%s", err).WithHint("%s", hint)
		}
		return usagef(cmd, "%s", err)
	})

	add := func(id, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title})
		for _, cmd := range commands {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	add("sandboxes", "Sandboxes:",
		NewRun(app, nil), NewLaunch(app, nil), NewLs(app, nil), NewInspect(app, nil),
		NewPort(app), NewTunnel(app), NewPolicy(app),
		NewStop(app, nil), NewStart(app, nil), NewPause(app, nil), NewResume(app, nil), NewTimeout(app, nil),
		NewSnapshot(app, nil), NewMove(app, nil), NewFork(app, nil), NewCheckpoint(app), NewExport(app),
		NewTerminate(app, nil), NewPrune(app, nil))
	add("commands", "Commands in sandboxes:",
		NewExec(app, nil), NewShell(app, nil), NewAttach(app, nil), NewPs(app, nil),
		NewLogs(app, nil), NewWait(app, nil), NewKill(app, nil))
	add("files", "Files:",
		NewCp(app, nil), NewPush(app, nil), NewPull(app, nil), NewFs(app))
	add("kept", "What providers keep:",
		NewApp(app), NewVolume(app), NewSecret(app), NewImage(app), NewEnvironment(app))
	add("watch", "What goes on:",
		NewUI(app, nil), NewTop(app, nil), NewStats(app, nil), NewEvents(app, nil), NewHistory(app, nil), NewCost(app))
	add("assistants", "Assistants:", NewMCP(app, nil), NewKey(app))
	add("setup", "Setup:",
		NewDoctor(app, nil), NewLogin(app), NewModal(app), NewProvider(app), NewConfig(app), NewCompletion(app, nil), NewVersion(app, nil))
	root.SetHelpCommandGroupID("setup")
	root.AddCommand(NewDocs(app, nil))
	return root
}
