package stores

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
	"github.com/seed-0724f904/sb/core/service"
)

// ImageInspectOptions are the options of image inspect.
type ImageInspectOptions struct {
	cli.StoreFlags

	App   *cli.App
	Image string
}

// NewImageInspect makes "sb image inspect".
func NewImageInspect(app *cli.App) *cobra.Command {
	opts := &ImageInspectOptions{App: app}
	cmd := &cobra.Command{
		Use: "inspect IMAGE", Short: "Show an image's settings, layers and users",
		Long:    "Show the settings of an image, its size, names and layers, and the sandboxes and snapshots that use it.",
		Example: "  sb image inspect python:3.12\n  sb image inspect --provider local --json python:3.12",
		Args:    cli.Exactly("IMAGE"), ValidArgsFunction: cli.FirstArg(app.CompleteStored(imageNames)),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Image = args[0]
			return runImageInspect(cmd.Context(), opts)
		},
	}
	opts.RegisterProvider(app, cmd, "the provider `NAME` (default: the configured one, or the only usable one)")
	cli.JSONFlag(
		cmd, &opts.JSON, "id, names, provider, created, size, platform, entrypoint, command, env, user, workdir, "+
			"stop_signal, ports, volumes, labels, layers, no_xattrs, used_by",
	)
	return cmd
}

func runImageInspect(ctx context.Context, opts *ImageInspectOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	i, err := svc.Stores.InspectImage(ctx, opts.Provider, opts.Image)
	if err != nil {
		return err
	}
	if opts.JSON {
		return output.JSON(opts.App.Streams.Out, i)
	}
	table := opts.App.Table("FIELD", "VALUE")
	row := func(field string, values ...string) {
		for _, value := range values {
			if value != "" {
				table.Row(field, value)
				field = ""
			}
		}
	}
	row("id", i.ID)
	row("names", i.Names...)
	row("provider", i.Provider)
	row("size", cli.SizeText(i.Size))
	row("created", opts.App.Since(i.Created))
	row("platform", i.Platform)
	row("entrypoint", strings.Join(i.Entrypoint, " "))
	row("command", strings.Join(i.Command, " "))
	row("env", i.Env...)
	row("user", i.User)
	row("workdir", i.Workdir)
	row("stop signal", i.StopSignal)
	row("ports", i.Ports...)
	row("volumes", i.Volumes...)
	for _, key := range slices.Sorted(maps.Keys(i.Labels)) {
		row("label", key+"="+i.Labels[key])
	}
	row("layers", i.Layers...)
	row("no xattrs", i.NoXattrs.String())
	row("used by", i.UsedBy...)
	return table.Write(opts.App.Streams.Out)
}

// NewImageTag makes "sb image tag".
func NewImageTag(app *cli.App) *cobra.Command {
	flags := &cli.StoreFlags{}
	cmd := &cobra.Command{
		Use: "tag IMAGE NAME", Short: "Give an image another name",
		Long:    "Give a stored image another name. If another image has the name, the name moves.",
		Example: "  sb image tag python:3.12 base:1",
		Args:    cli.Exactly("IMAGE", "NAME"), ValidArgsFunction: cli.FirstArg(app.CompleteStored(imageNames)),
		RunE: func(cmd *cobra.Command, args []string) error {
			svc, err := app.Service()
			if err != nil {
				return err
			}
			return svc.Stores.TagImage(cmd.Context(), flags.Provider, args[0], args[1])
		},
	}
	flags.RegisterProvider(app, cmd, "the provider `NAME` (default: the configured one, or the only usable one)")
	return cmd
}

// ImagePruneOptions are the options of image prune.
type ImagePruneOptions struct {
	cli.StoreFlags

	App         *cli.App
	Yes, DryRun bool
}

// NewImagePrune makes "sb image prune".
func NewImagePrune(app *cli.App) *cobra.Command {
	opts := &ImagePruneOptions{App: app}
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove the images that nothing uses",
		Long: "Remove the images on this machine that no sandbox, snapshot or checkpoint uses.\n" +
			"On a terminal it lists them and asks; elsewhere it needs --yes or --dry-run.",
		Example: "  sb image prune --dry-run\n  sb image prune --yes",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runImagePrune(cmd.Context(), opts) },
	}
	opts.RegisterProvider(app, cmd, "the provider `NAME` (default: the configured one, or the only usable one)")
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "say what would be removed; remove nothing")
	cmd.Flags().BoolVarP(&opts.Yes, "yes", "y", false, "do not ask")
	cli.JSONFlag(cmd, &opts.JSON, "an object: dry_run, images as in image ls, size, failures")
	return cmd
}

func runImagePrune(ctx context.Context, opts *ImagePruneOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	if !opts.DryRun && !opts.Yes {
		report, err := svc.Stores.PruneImages(ctx, opts.Provider, true)
		if err != nil {
			return err
		}
		if len(report.Images) > 0 {
			if err := imageTable(opts.App, report.Images).Write(opts.App.Streams.Err); err != nil {
				return err
			}
			question := fmt.Sprintf("Remove %s with %s?", output.Count(len(report.Images), "image", "images"), report.Size)
			if err := cli.Confirm(opts.App, question, "--yes"); err != nil {
				return err
			}
		}
	}
	report, err := svc.Stores.PruneImages(ctx, opts.Provider, opts.DryRun)
	if err != nil {
		return err
	}
	return imagesPruned(opts, report)
}

func imageTable(app *cli.App, images []core.ImageInfo) *output.Table {
	table := app.Table("NAME", "ID", "SIZE", "AGE")
	for _, i := range images {
		table.Row(strings.Join(i.Names, " "), shortID(i.ID), cli.SizeText(i.Size), app.Since(i.Created))
	}
	return table
}

func imagesPruned(opts *ImagePruneOptions, report service.ImagePruneReport) error {
	if opts.JSON {
		if err := output.JSON(opts.App.Streams.Out, report); err != nil {
			return err
		}
		return cli.Failures(report.Failures)
	}
	total := fmt.Sprintf("removed %s, %s", output.Count(len(report.Images), "image", "images"), report.Size)
	if opts.DryRun {
		total = fmt.Sprintf(
			"nothing was removed; %s with %s would be", output.Count(len(report.Images), "image", "images"), report.Size,
		)
	}
	if len(report.Images) > 0 {
		if err := imageTable(opts.App, report.Images).Write(opts.App.Streams.Out); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintln(opts.App.Streams.Err, total)
	return cli.Failures(report.Failures)
}
