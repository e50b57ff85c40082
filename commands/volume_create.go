package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/core"
)

// VolumeCreateOptions are what volume create works with.
type VolumeCreateOptions struct {
	storeFlags

	App     *App
	Name    string
	Version int
}

// NewVolumeCreate makes "sb volume create".
func NewVolumeCreate(app *App) *cobra.Command {
	opts := &VolumeCreateOptions{App: app}
	cmd := &cobra.Command{
		Use: "create VOLUME", Short: "Make an empty volume",
		Long:    "Make an empty volume and print its name. A launch makes the volumes that it mounts by itself where\nthe provider can do that." + exitStatusHelp,
		Example: "  sb volume create data --provider docker\n  sb volume create weights --provider modal --version 2",
		Args:    exactly("VOLUME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Name = args[0]
			return runVolumeCreate(cmd.Context(), opts)
		},
	}
	opts.provider(app, cmd, "the provider `NAME` that keeps it (default: the configured one, or the only one set up that can)")
	cmd.Flags().IntVar(&opts.Version, "version", 0, "version `N` of the volume's format, where the provider has several")
	jsonFlag(cmd, &opts.JSON, "name, id, provider, created, size, version")
	return cmd
}

func runVolumeCreate(ctx context.Context, opts *VolumeCreateOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	made, err := service.CreateVolume(ctx, opts.Provider, opts.Name, core.VolumeOptions{Version: opts.Version})
	if err != nil {
		return err
	}
	return opts.tell(opts.App, made, made.Name)
}
