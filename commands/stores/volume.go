package stores

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewVolume makes "sb volume", the group of commands for volumes.
func NewVolume(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use: "volume", Aliases: []string{"volumes"}, Short: "Manage volumes",
		Long: "List, create and remove volumes. \"sb launch --volume NAME:/PATH\" mounts one.",
		Example: "  sb volume create data --provider docker\n  sb launch --provider docker --volume data:/data\n  sb " +
			"volume ls",
	}, NewVolumeLs(app), NewVolumeCreate(app), NewVolumeRm(app))
}

// VolumeCreateOptions are the options of volume create.
type VolumeCreateOptions struct {
	cli.StoreFlags

	App     *cli.App
	Name    string
	Version int
}

// NewVolumeCreate makes "sb volume create".
func NewVolumeCreate(app *cli.App) *cobra.Command {
	opts := &VolumeCreateOptions{App: app}
	cmd := &cobra.Command{
		Use: "create VOLUME", Short: "Create a volume",
		Long: "Create an empty volume and print its name. A launch creates missing volumes automatically if the provider\n" +
			"supports it.",
		Example: "  sb volume create data --provider docker\n  sb volume create weights --provider modal --version 2",
		Args:    cli.Exactly("VOLUME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Name = args[0]
			return runVolumeCreate(cmd.Context(), opts)
		},
	}
	opts.RegisterProvider(
		app, cmd, "the provider `NAME` that keeps it (default: the configured one, or the only one set up that can)",
	)
	cmd.Flags().IntVar(&opts.Version, "version", 0, "version `N` of the volume's format, where the provider has several")
	cli.JSONFlag(cmd, &opts.JSON, "name, id, provider, created, size, version")
	return cmd
}

func runVolumeCreate(ctx context.Context, opts *VolumeCreateOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	made, err := service.Stores.CreateVolume(ctx, opts.Provider, opts.Name, core.VolumeOptions{Version: opts.Version})
	if err != nil {
		return err
	}
	return opts.Tell(opts.App, "volume", made.Name, made)
}

// NewVolumeLs makes "sb volume ls".
func NewVolumeLs(app *cli.App) *cobra.Command {
	return cli.NewStoreLs(app, cli.StoreList[core.VolumeInfo]{
		Short: "List volumes", Long: "List the volumes of all providers or of one.",
		Example: "  sb volume ls\n  sb volume ls --provider modal --json",
		Fields:  "name, id, provider, created, size, version", Quiet: "names",
		Headers: []string{"NAME", "PROVIDER", "SIZE", "AGE"},
		List: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.VolumeInfo], error) {
			return svc.Stores.Volumes(ctx, provider)
		},
		Row: func(app *cli.App, v core.VolumeInfo) []string {
			return []string{v.Name, v.Provider, cli.SizeText(v.Size), app.Since(v.Created)}
		},
		ID: func(v core.VolumeInfo) string { return v.Name },
	})
}

// volumeNames returns the names of volumes, for completion.
func volumeNames(ctx context.Context, svc *service.Service) []string {
	found, err := svc.Stores.Volumes(ctx, "")
	return cli.Named(found, err, func(v core.VolumeInfo) []string { return []string{v.Name} })
}

// NewVolumeRm makes "sb volume rm".
func NewVolumeRm(app *cli.App) *cobra.Command {
	return cli.NewStoreRm(app, cli.StoreRemoval{
		Noun: "volume", Short: "Remove volumes and their files",
		Long: "Remove volumes and their files. On a terminal it asks first. A mounted volume is kept. If some fail, the\n" +
			"others are still removed.",
		Example: "  sb volume rm data\n  sb volume rm --provider modal --yes weights",
		Names:   volumeNames,
		Sizes: func(ctx context.Context, svc *service.Service, provider string) map[string]core.Bytes {
			found, err := svc.Stores.Volumes(ctx, provider)
			return SizesOf(found, err, func(kept core.VolumeInfo) (string, core.Bytes) { return kept.Name, kept.Size })
		},
		Remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.Stores.RemoveVolume(ctx, provider, name)
		},
	})
}
