package stores

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewImage makes "sb image", the group of commands for images.
func NewImage(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use: "image", Aliases: []string{"images"}, Short: "Manage images",
		Long:    "List, pull and remove the images that providers have downloaded, and mount one in a running sandbox.",
		Example: "  sb image pull python:3.12 --provider docker\n  sb image ls\n  sb image rm python:3.12",
	}, NewImageLs(app), NewImagePull(app), NewImageBuild(app), NewImageInspect(app), NewImageTag(app),
		NewImageExport(app), NewImageImport(app), NewImagePush(app), NewImageRm(app), NewImagePrune(app), NewImageMount(app),
		NewImageUnmount(app))
}

// NewImageLs makes "sb image ls".
func NewImageLs(app *cli.App) *cobra.Command {
	return cli.NewStoreLs(app, cli.StoreList[core.ImageInfo]{
		Short: "List images",
		Long: "List the images that providers have downloaded. You can also launch from any image of a registry, if the\n" +
			"provider supports it.",
		Example: "  sb image ls\n  sb image ls --provider docker --json",
		Fields:  "id, names, provider, created, size, note", Quiet: "ids",
		Headers: []string{"NAME", "ID", "PROVIDER", "SIZE", "AGE"},
		List: func(ctx context.Context, svc *service.Service, provider string) (service.Inventory[core.ImageInfo], error) {
			return svc.Stores.Images(ctx, provider)
		},
		Row: func(app *cli.App, i core.ImageInfo) []string {
			return []string{strings.Join(i.Names, " "), shortID(i.ID), i.Provider, cli.SizeText(i.Size), app.Since(i.Created)}
		},
		ID:   func(i core.ImageInfo) string { return i.ID },
		Note: func(i core.ImageInfo) string { return i.Note },
	})
}

// shortID cuts a digest to its first 12 digits, which are enough to distinguish images.
func shortID(id string) string {
	const enough = 12
	if hex, ok := strings.CutPrefix(id, "sha256:"); ok && len(hex) > enough {
		return hex[:enough]
	}
	return id
}

// imageNames returns the names of images, for completion.
func imageNames(ctx context.Context, svc *service.Service) []string {
	found, err := svc.Stores.Images(ctx, "")
	return cli.Named(found, err, func(i core.ImageInfo) []string { return i.Names })
}

// NewImageRm makes "sb image rm".
func NewImageRm(app *cli.App) *cobra.Command {
	return cli.NewStoreRm(app, cli.StoreRemoval{
		Noun: "image", Short: "Remove images",
		Long: "Remove images of a provider by name or id; an image that a sandbox uses is kept. On a terminal it\n" +
			"asks first.",
		Example: "  sb image rm python:3.12\n  sb image rm --provider docker --yes python:3.12",
		Names:   imageNames,
		Remove: func(ctx context.Context, svc *service.Service, provider, name string) error {
			return svc.Stores.RemoveImage(ctx, provider, name)
		},
	})
}

// ImagePullOptions are the options of image pull.
type ImagePullOptions struct {
	cli.StoreFlags

	App   *cli.App
	Image string
}

// NewImagePull makes "sb image pull".
func NewImagePull(app *cli.App) *cobra.Command {
	opts := &ImagePullOptions{App: app}
	cmd := &cobra.Command{
		Use: "pull IMAGE", Short: "Pull an image",
		Long:    "Pull an image and print its id. A launch pulls a missing image automatically.",
		Example: "  sb image pull python:3.12 --provider docker",
		Args:    cli.Exactly("IMAGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Image = args[0]
			return runImagePull(cmd.Context(), opts)
		},
	}
	opts.RegisterProvider(app, cmd, "the provider `NAME` (default: the configured one, or the only usable one)")
	cli.JSONFlag(cmd, &opts.JSON, "id, names, provider, created, size, note")
	cli.QuietFlag(cmd, &opts.Quiet, "the id, without progress")
	return cmd
}

func runImagePull(ctx context.Context, opts *ImagePullOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	report, stop := opts.App.Progress()
	if opts.Quiet {
		report = nil
	}
	pulled, err := service.Stores.PullImage(ctx, opts.Provider, opts.Image, report)
	stop()
	if err != nil {
		return err
	}
	return opts.Tell(opts.App, "image", pulled.ID, pulled)
}

// NewImageMount makes "sb image mount".
func NewImageMount(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "mount SANDBOX IMAGE PATH", Short: "Mount an image in a running sandbox",
		Long: "Mount an image, for example from \"sb snapshot --path\", at an absolute path of a running sandbox. The\n" +
			"directory must exist.",
		Example: "  sb image mount dev im-0123456789abcdef /data",
		Args:    cli.Exactly("SANDBOX", "IMAGE", "PATH"), ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			service, err := app.Service()
			if err != nil {
				return err
			}
			return service.Sandboxes.MountImage(cmd.Context(), args[0], args[1], args[2])
		},
	}
}

// NewImageUnmount makes "sb image unmount".
func NewImageUnmount(app *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: "unmount SANDBOX PATH", Short: "Unmount an image",
		Long:    "Unmount an image that \"sb image mount\" mounted at a path of a sandbox.",
		Example: "  sb image unmount dev /data",
		Args:    cli.Exactly("SANDBOX", "PATH"), ValidArgsFunction: app.CompletePath,
		RunE: func(cmd *cobra.Command, args []string) error {
			service, err := app.Service()
			if err != nil {
				return err
			}
			return service.Sandboxes.UnmountImage(cmd.Context(), args[0], args[1])
		},
	}
}
