package commands

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// AppStopOptions are what app stop works with.
type AppStopOptions struct {
	storeFlags

	App  *App
	Name string
	Yes  bool
	// AllOwners ends the sandboxes of other owners as well.
	AllOwners bool
}

// NewAppStop makes "sb app stop".
func NewAppStop(app *App) *cobra.Command {
	opts := &AppStopOptions{App: app}
	cmd := &cobra.Command{
		Use: "stop APP", Short: "End an app with all its sandboxes",
		Long:    "Terminate every sandbox of an app, at all providers or at one, and end the app itself where it is more\nthan a label, and print its name. It asks first, or needs --yes." + exitStatusHelp,
		Example: "  sb app stop ci\n  sb app stop ci --provider modal --yes",
		Args:    exactly("APP"), ValidArgsFunction: firstArg(app.completeApps),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Name = args[0]
			return runAppStop(cmd.Context(), opts)
		},
	}
	opts.provider(app, cmd, "only at the provider `NAME`")
	cmd.Flags().BoolVar(&opts.AllOwners, "all-owners", false, allOwnersUsage)
	cmd.Flags().BoolVarP(&opts.Yes, "yes", "y", false, "do not ask")
	jsonFlag(cmd, &opts.JSON, outcomeFields("stopped"))
	return cmd
}

func runAppStop(ctx context.Context, opts *AppStopOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	if !opts.Yes {
		if err := confirm(opts.App, fmt.Sprintf("Terminate all sandboxes of app %s?", opts.Name), "--yes"); err != nil {
			return err
		}
	}
	return forEachName(opts.App, []string{opts.Name}, "stopped", opts.JSON, func(name string) (string, error) {
		return name, service.StopApp(ctx, opts.Provider, name, opts.AllOwners)
	})
}
