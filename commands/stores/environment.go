package stores

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewEnvironment makes "sb environment", the group of commands for a provider's environments.
func NewEnvironment(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use: "environment", Aliases: []string{"environments"}, Short: "Manage environments of a provider",
		Long: "List, create and remove environments, which have their own volumes, secrets and apps.\n" +
			"MODAL_ENVIRONMENT sets the one that sb uses.",
		Example: "  sb environment create staging\n  sb environment ls\n  sb environment rm staging",
	}, NewEnvironmentLs(app), NewEnvironmentCreate(app), NewEnvironmentRm(app))
}

// NewEnvironmentCreate makes "sb environment create".
func NewEnvironmentCreate(app *cli.App) *cobra.Command {
	flags := &cli.StoreFlags{}
	cmd := &cobra.Command{
		Use: "create ENVIRONMENT", Short: "Create an environment",
		Long:    "Create an empty environment and print its name.",
		Example: "  sb environment create staging --provider modal",
		Args:    cli.Exactly("ENVIRONMENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			service, err := app.Service()
			if err != nil {
				return err
			}
			made, err := service.Stores.CreateEnvironment(cmd.Context(), flags.Provider, args[0])
			if err != nil {
				return err
			}
			return flags.Tell(app, "environment", made.Name, made)
		},
	}
	flags.RegisterProvider(app, cmd, "the provider `NAME` (default: the configured one, or the only usable one)")
	cli.JSONFlag(cmd, &flags.JSON, "name, provider, current")
	return cmd
}

// NewEnvironmentLs makes "sb environment ls".
func NewEnvironmentLs(app *cli.App) *cobra.Command {
	return cli.NewStoreLs(app, cli.StoreList[core.EnvironmentInfo]{
		Short: "List environments", Long: "List the environments of all providers or of one.",
		Example: "  sb environment ls\n  sb environment ls --provider modal --json",
		Fields:  "name, provider, current", Quiet: "names",
		Headers: []string{"NAME", "PROVIDER", "CURRENT"},
		List: func(
			ctx context.Context, svc *service.Service, provider string,
		) (service.Inventory[core.EnvironmentInfo], error) {
			return svc.Stores.Environments(ctx, provider)
		},
		Row: func(_ *cli.App, e core.EnvironmentInfo) []string {
			return []string{e.Name, e.Provider, cli.YesNo(e.Current)}
		},
		ID: func(e core.EnvironmentInfo) string { return e.Name },
	})
}

// environmentNames returns the names of environments, for completion.
func environmentNames(ctx context.Context, svc *service.Service) []string {
	found, err := svc.Stores.Environments(ctx, "")
	return cli.Named(found, err, func(e core.EnvironmentInfo) []string { return []string{e.Name} })
}

// NewEnvironmentRm makes "sb environment rm".
func NewEnvironmentRm(app *cli.App) *cobra.Command {
	return cli.NewStoreRm(app, cli.StoreRemoval{
		Noun: "environment", Short: "Remove environments and everything in them", Ask: true,
		Long:    "Remove environments with their apps, sandboxes, volumes and secrets. It asks first, or needs --yes.",
		Example: "  sb environment rm staging --yes",
		Names:   environmentNames,
		Remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.Stores.RemoveEnvironment(ctx, provider, name)
		},
	})
}
