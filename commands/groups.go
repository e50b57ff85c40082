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
)

// group is one group of the help.
type group struct {
	id, title string
	commands  []named
}

// named makes a command of that name. The other commands need not be made to find it.
type named struct {
	name string
	make func(app *cli.App) *cobra.Command
}

// groups lists the commands, in the order of the help.
func groups() []group {
	return []group{
		{"sandboxes", "Sandboxes:", []named{
			{"run", sandboxes.NewRun},
			{"launch", newLaunch},
			{"ls", sandboxes.NewLs},
			{"inspect", sandboxes.NewInspect},
			{"port", sandboxes.NewPort},
			{"tunnel", sandboxes.NewTunnel},
			{"policy", sandboxes.NewPolicy},
			{"stop", sandboxes.NewStop},
			{"start", sandboxes.NewStart},
			{"pause", sandboxes.NewPause},
			{"resume", sandboxes.NewResume},
			{"timeout", sandboxes.NewTimeout},
			{"snapshot", sandboxes.NewSnapshot},
			{"move", sandboxes.NewMove},
			{"fork", sandboxes.NewFork},
			{"checkpoint", sandboxes.NewCheckpoint},
			{"export", sandboxes.NewExport},
			{"terminate", sandboxes.NewTerminate},
			{"prune", sandboxes.NewPrune},
		}},
		{"commands", "Commands in sandboxes:", []named{
			{"exec", newExec},
			{"code", exec.NewCode},
			{"install", exec.NewInstall},
			{"shell", exec.NewShell},
			{"attach", exec.NewAttach},
			{"ps", exec.NewPs},
			{"logs", exec.NewLogs},
			{"wait", exec.NewWait},
			{"kill", exec.NewKill},
		}},
		{"files", "Files:", []named{
			{"cp", files.NewCp},
			{"push", files.NewPush},
			{"pull", files.NewPull},
			{"fs", files.NewFs},
			{"diff", files.NewDiff},
			{"apply", files.NewApply},
		}},
		{"kept", "Provider resources:", []named{
			{"app", stores.NewApp},
			{"volume", newVolume},
			{"secret", stores.NewSecret},
			{"image", stores.NewImage},
			{"environment", stores.NewEnvironment},
		}},
		{"watch", "Monitoring:", []named{
			{"ui", watch.NewUI},
			{"top", watch.NewTop},
			{"stats", watch.NewStats},
			{"events", watch.NewEvents},
			{"history", watch.NewHistory},
			{"cost", watch.NewCost},
		}},
		{"assistants", "Assistants:", []named{
			{"mcp", assistants.NewMCP}, {"serve", assistants.NewServe}, {"key", assistants.NewKey},
		}},
		{"setup", "Setup:", []named{
			{"doctor", setup.NewDoctor},
			{"login", setup.NewLogin},
			{"modal", setup.NewModal},
			{"provider", setup.NewProvider},
			{"config", setup.NewConfig},
			{"completion", setup.NewCompletion},
			{"version", setup.NewVersion},
		}},
	}
}

// only returns the groups with the one command that args name first. Without one it returns all groups, whole.
func only(args []string) []group {
	all := groups()
	if len(args) == 0 {
		return all
	}
	for i, g := range all {
		for _, cmd := range g.commands {
			if cmd.name == args[0] {
				for j := range all {
					all[j].commands = nil
				}
				all[i].commands = []named{cmd}
				return all
			}
		}
	}
	return all
}

func newLaunch(app *cli.App) *cobra.Command { return sandboxes.NewLaunch(app, nil) }

func newExec(app *cli.App) *cobra.Command { return exec.NewExec(app, nil) }

func newVolume(app *cli.App) *cobra.Command { return stores.NewVolume(app, files.NewVolumeCp(app)) }
