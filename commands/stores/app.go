package stores

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewApp makes "sb app", the group of commands for apps.
func NewApp(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use: "app", Aliases: []string{"apps"}, Short: "Manage apps, which group sandboxes",
		Long:    "List and stop apps. \"sb launch --app NAME\" adds a sandbox to one.",
		Example: "  sb app ls\n  sb app stop ci --yes",
	}, NewAppLs(app), NewAppStop(app))
}

// NewAppLs makes "sb app ls".
func NewAppLs(app *cli.App) *cobra.Command {
	return cli.NewStoreLs(app, cli.StoreList[core.AppInfo]{
		Short: "List apps", Long: "List the apps of all providers or of one, with the number of their sandboxes. If an app " +
			"is only a label, it\n" +
			"exists as long as one of its sandboxes.",
		Example: "  sb app ls\n  sb app ls --provider modal --json",
		Fields:  "name, id, provider, state, created, sandboxes", Quiet: "names",
		Headers: []string{"NAME", "PROVIDER", "SANDBOXES", "STATE", "AGE"},
		List: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.AppInfo], error) {
			return svc.Stores.Apps(ctx, provider)
		},
		Row: func(app *cli.App, a core.AppInfo) []string {
			return []string{a.Name, a.Provider, strconv.Itoa(a.Sandboxes), a.State, app.Since(a.Created)}
		},
		ID: func(a core.AppInfo) string { return a.Name },
	})
}

// AppStopOptions are the options of app stop.
type AppStopOptions struct {
	cli.StoreFlags

	App  *cli.App
	Name string
	Yes  bool
	// AllOwners ends the sandboxes of other owners as well.
	AllOwners bool
}

// NewAppStop makes "sb app stop".
func NewAppStop(app *cli.App) *cobra.Command {
	opts := &AppStopOptions{App: app}
	cmd := &cobra.Command{
		Use: "stop APP", Short: "Stop an app and terminate its sandboxes",
		Long: "Terminate every sandbox of an app, at all providers or at one, and print the app's name. It asks\n" +
			"first, or needs --yes.",
		Example: "  sb app stop ci\n  sb app stop ci --provider modal --yes",
		Args:    cli.Exactly("APP"), ValidArgsFunction: cli.FirstArg(app.CompleteApps),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Name = args[0]
			return runAppStop(cmd.Context(), opts)
		},
	}
	opts.RegisterProvider(app, cmd, "only at the provider `NAME`")
	cmd.Flags().BoolVar(&opts.AllOwners, "all-owners", false, cli.AllOwnersUsage)
	cmd.Flags().BoolVarP(&opts.Yes, "yes", "y", false, "do not ask")
	cli.JSONFlag(cmd, &opts.JSON, cli.OutcomeFields("stopped"))
	return cmd
}

func runAppStop(ctx context.Context, opts *AppStopOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	if !opts.Yes {
		if err := cli.Confirm(opts.App, fmt.Sprintf("Terminate all sandboxes of app %s?", opts.Name), "--yes"); err != nil {
			return err
		}
	}
	return cli.ForEachName(opts.App, []string{opts.Name}, "stopped", opts.JSON, func(name string) (string, error) {
		return name, service.Stores.StopApp(ctx, opts.Provider, name, opts.AllOwners)
	})
}
