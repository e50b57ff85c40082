package watch

import (
	"cmp"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui"
	"github.com/seed-0724f904/sb/tui/theme"
)

// UIOptions are the options of ui.
type UIOptions struct {
	App    *cli.App
	Attach string
	Theme  string
}

// NewUI makes "sb ui".
func NewUI(app *cli.App) *cobra.Command {
	opts := &UIOptions{App: app}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open the dashboard",
		Long: "Open the dashboard: all sandboxes of all providers, live, with their output, files, processes and\n" +
			"usage. Press \"?\" for the keys and \":\" for all commands.",
		Example: "  sb ui\n  sb ui --attach dev\n  sb ui --theme light",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return watched(cmd.Context(), app, func(ctx context.Context, equip func(
				*tui.Options,
			),
			) error {
				return RunUI(ctx, opts, equip)
			})
		},
	}
	cmd.Flags().StringVar(&opts.Attach, "attach", "", "show the details of the sandbox `NAME`")
	themeFlag(cmd, &opts.Theme)
	cli.Complete(cmd, "attach", app.CompleteSandboxes)
	return cmd
}

func themeFlag(cmd *cobra.Command, chosen *string) {
	cmd.Flags().StringVar(chosen, "theme", "", "`COLORS`: "+strings.Join(theme.Names(), ", ")+
		" (default: the setting ui.theme)")
	cli.Complete(cmd, "theme", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return theme.Names(), cobra.ShellCompDirectiveNoFileComp
	})
}

// RunUI shows the dashboard until it is closed.
func RunUI(ctx context.Context, opts *UIOptions, equip func(*tui.Options)) error {
	options, err := Dashboard(opts.App, opts.Theme)
	if err != nil {
		return err
	}
	equip(&options)
	options.Attach = opts.Attach
	return tui.Run(ctx, options)
}

// Dashboard returns the options of a dashboard on this program's terminal.
func Dashboard(a *cli.App, chosen string) (tui.Options, error) {
	const elsewhere = "elsewhere use: sb ls, sb top --once, sb events"
	if !a.Streams.InTTY() || !a.Streams.OutTTY() {
		return tui.Options{}, core.Errorf(core.KindUsage, "ui", "", "the dashboard needs a terminal").WithHint(elsewhere)
	}
	// Such a terminal cannot place its cursor, and no style would show the selection.
	if term, _ := a.LookupEnv("TERM"); term == "dumb" {
		return tui.Options{}, core.Errorf(
			core.KindUsage, "ui", "", "the dashboard needs a terminal that draws; TERM is dumb",
		).WithHint(elsewhere)
	}
	config, err := a.Config()
	if err != nil {
		return tui.Options{}, err
	}
	chosen = cmp.Or(chosen, config.UI.Theme)
	if !slices.Contains(theme.Names(), chosen) {
		return tui.Options{}, core.Errorf(core.KindUsage, "ui", "", "there is no theme %q", chosen).
			WithHint("the themes are %s", strings.Join(theme.Names(), ", "))
	}
	keys, err := tui.ParseKeys(config.UI.Keys)
	if err != nil {
		return tui.Options{}, err
	}
	paths, err := a.Paths()
	if err != nil {
		return tui.Options{}, err
	}
	a.Actor = cli.ActorUI
	service, err := a.Service()
	if err != nil {
		return tui.Options{}, err
	}
	return tui.Options{
		Service: service, Input: a.Streams.In, Output: a.Streams.Out, Theme: chosen, NoColor: !a.Streams.Color(),
		Keys: keys, Mouse: config.UI.Mouse == "enabled", MemoryFile: filepath.Join(paths.State, "ui.json"), Edit: func(
			ctx context.Context, path string,
		) error {
			return edit(ctx, a, path)
		}, Now: a.Now,
		Templates: func() ([]tui.Template, error) {
			return cli.ReadTemplates(cli.TemplateDir(paths), a.LookupEnv)
		},
		Shell: func(ctx context.Context, sandbox string, command []string) error {
			return a.Execute(ctx, service, sandbox, shellSpec(a, command))
		},
	}, nil
}

// shellSpec is a command with this program's terminal.
func shellSpec(a *cli.App, command []string) core.ExecSpec {
	spec := core.ExecSpec{Command: command, TTY: true, Stdin: a.Streams.In, Stdout: a.Streams.Out, Stderr: a.Streams.Err}
	if term, ok := a.LookupEnv("TERM"); ok {
		spec.Env = map[string]string{"TERM": term}
	}
	return spec
}

// Editor is the command that edits a file, without the file.
func Editor(a *cli.App) []string {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if value, _ := a.LookupEnv(name); strings.TrimSpace(value) != "" {
			return strings.Fields(value)
		}
	}
	return []string{"vi"}
}

// edit opens a file in the user's editor. While the editor has the terminal, ctrl-c belongs to it.
func edit(ctx context.Context, a *cli.App, path string) error {
	_, release := a.Signals.Take()
	defer release()
	argv := append(Editor(a), path)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the user's editor
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Streams.In, a.Streams.Out, a.Streams.Err
	return cmd.Run()
}
