package commands

import (
	"context"

	"github.com/spf13/cobra"
)

// ImagePullOptions are what image pull works with.
type ImagePullOptions struct {
	storeFlags

	App   *App
	Image string
}

// NewImagePull makes "sb image pull".
func NewImagePull(app *App) *cobra.Command {
	opts := &ImagePullOptions{App: app}
	cmd := &cobra.Command{
		Use: "pull IMAGE", Short: "Get an image, so that a launch does not wait for it",
		Long:    "Have a provider get an image and print its id. A launch does so by itself." + exitStatusHelp,
		Example: "  sb image pull python:3.12 --provider docker",
		Args:    exactly("IMAGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Image = args[0]
			return runImagePull(cmd.Context(), opts)
		},
	}
	opts.provider(app, cmd, "the provider `NAME` (default: the configured one, or the only one set up that can)")
	jsonFlag(cmd, &opts.JSON, "id, names, provider, created, size")
	quietFlag(cmd, &opts.Quiet, "the id, with no progress")
	return cmd
}

func runImagePull(ctx context.Context, opts *ImagePullOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	report, stop := opts.App.progress()
	if opts.Quiet {
		report = nil
	}
	pulled, err := service.PullImage(ctx, opts.Provider, opts.Image, report)
	stop()
	if err != nil {
		return err
	}
	return opts.tell(opts.App, pulled, pulled.ID)
}
