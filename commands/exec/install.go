package exec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/packages"
)

// InstallOptions are the options of install.
type InstallOptions struct {
	App     *cli.App
	Sandbox string
	Install packages.Install
	// Index is the address of the packages; "" is the configuration's.
	Index string
	Spec  core.ExecSpec
	JSON  bool
}

// NewInstall makes "sb install".
func NewInstall(app *cli.App) *cobra.Command {
	opts := &InstallOptions{App: app}
	flags := &cli.ExecFlags{}
	var manager string
	var detach bool
	cmd := &cobra.Command{
		Use:   "install [flags] SANDBOX PACKAGE...",
		Short: "Install packages in a running sandbox",
		Long: "Install packages with the first of uv, pip, npm and apt that the sandbox has. Installations in one sandbox\n" +
			"come one after the other." + cli.GuestExitHelp,
		Example: "  sb install dev numpy 'pandas>=2'\n" +
			"  sb install -m apt dev curl jq\n" +
			"  sb install --detach dev torch && sb install ls dev",
		Annotations:       cli.PassesCode(),
		Args:              cli.AtLeast("SANDBOX", "PACKAGE"),
		ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.JSON && !detach {
				return cli.Usagef(cmd, "--json needs --detach; \"sb install ls --json\" has the results")
			}
			var err error
			if opts.Spec, err = flags.Spec(app, nil); err != nil {
				return err
			}
			opts.Spec.Detach = detach
			opts.Sandbox = args[0]
			opts.Install = packages.Install{Manager: packages.Manager(manager), Packages: args[1:]}
			return runInstall(cmd.Context(), opts)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVarP(&manager, "manager", "m", string(packages.Auto), "`MANAGER`: auto, uv, pip, npm or apt")
	cmd.Flags().StringVar(&opts.Index, "index", "", "`URL` of the packages (default: pip.index_url, npm.registry or apt.mirror)")
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "install in the background and print the command's id")
	cmd.Flags().Var(&flags.Timeout, "timeout", "end the installation after this time, with exit code 124")
	flags.RegisterPlace(cmd)
	cli.JSONFlag(cmd, &opts.JSON, "with --detach: sandbox and exec")
	var managers []string
	for _, m := range packages.Managers() {
		managers = append(managers, string(m))
	}
	cli.Complete(cmd, "manager", cli.Fixed(managers...))
	cmd.AddCommand(newInstallLs(app))
	return cmd
}

func runInstall(ctx context.Context, opts *InstallOptions) error {
	config, err := opts.App.Config()
	if err != nil {
		return err
	}
	from := packages.Indexes{
		Pip: config.Packages.PipIndex, NPM: config.Packages.NPMRegistry, Apt: config.Packages.AptMirror,
	}
	if opts.Index != "" {
		from = packages.Indexes{Pip: opts.Index, NPM: opts.Index, Apt: opts.Index}
	}
	spec, err := opts.Install.Command(opts.Spec, from)
	if err != nil {
		return err
	}
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	if spec.Detach {
		return detached(ctx, &Options{App: opts.App, Sandbox: opts.Sandbox, Spec: spec, JSON: opts.JSON}, svc)
	}
	spec.Stdout, spec.Stderr = opts.App.Streams.Out, opts.App.Streams.Err
	return opts.App.Execute(ctx, svc, opts.Sandbox, spec)
}

// newInstallLs makes "sb install ls".
func newInstallLs(app *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls SANDBOX", Short: "List the installations in a sandbox",
		Long: "List the installations of \"sb install\" in a sandbox: queued, installing, installed with the versions, or\n" +
			"failed with the last line of the output.",
		Example: "  sb install ls dev\n  sb install ls --json dev | jq -r '.[-1].log[]'",
		Args:    cli.Exactly("SANDBOX"), ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			svc, err := app.Service()
			if err != nil {
				return err
			}
			installs, err := packages.List(cmd.Context(), svc.Execs, args[0])
			if err != nil {
				return err
			}
			return listInstalls(app, installs, asJSON)
		},
	}
	cli.JSONFlag(cmd, &asJSON,
		"an array of exec, state, manager, packages, started, ended, exit_code, versions by package, log")
	return cmd
}

func listInstalls(app *cli.App, installs []packages.Status, asJSON bool) error {
	if asJSON {
		return output.List(app.Streams.Out, installs)
	}
	now := app.Now()
	table := app.Table("EXEC", "STATE", "AGE", "MANAGER", "PACKAGES", "RESULT")
	for _, i := range installs {
		var result string
		switch {
		case i.State == packages.Failed && len(i.Log) > 0:
			result = i.Log[len(i.Log)-1]
		case i.State == packages.Installed:
			var versions []string
			for _, name := range slices.Sorted(maps.Keys(i.Versions)) {
				versions = append(versions, fmt.Sprintf("%s %s", name, i.Versions[name]))
			}
			result = strings.Join(versions, ", ")
		}
		table.Row(i.Exec, string(i.State), output.Age(i.Started, now), i.Manager, strings.Join(i.Packages, " "), result)
	}
	return table.Write(app.Streams.Out)
}
