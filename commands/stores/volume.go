package stores

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// NewVolume makes "sb volume", the group of commands for volumes. more are commands of other packages.
func NewVolume(app *cli.App, more ...*cobra.Command) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use: "volume", Aliases: []string{"volumes"}, Short: "Manage volumes",
		Long: "List, create, inspect, copy and remove volumes. \"sb launch --volume NAME:/PATH\" mounts one.",
		Example: "  sb volume create data\n  sb launch --volume data:/data\n  sb volume cp ./input data:/\n  sb " +
			"volume ls",
	}, append([]*cobra.Command{
		NewVolumeLs(app), NewVolumeCreate(app), NewVolumeInspect(app), NewVolumeRm(app), NewVolumePrune(app),
	}, more...)...)
}

const volumeFields = "name, id, provider, created, size, version, labels"

// VolumeCreateOptions are the options of volume create.
type VolumeCreateOptions struct {
	cli.StoreFlags

	App     *cli.App
	Name    string
	Options core.VolumeOptions
}

// NewVolumeCreate makes "sb volume create".
func NewVolumeCreate(app *cli.App) *cobra.Command {
	opts := &VolumeCreateOptions{App: app}
	var labels []string
	cmd := &cobra.Command{
		Use: "create VOLUME", Short: "Create a volume",
		Long: "Create an empty volume and print its name. A launch creates a missing volume itself.",
		Example: "  sb volume create data\n  sb volume create cache --provider docker --label team=web\n" +
			"  sb volume create weights --provider modal --version 2",
		Args: cli.Exactly("VOLUME"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			opts.Name = args[0]
			if opts.Options.Labels, err = cli.ParseLabels(labels); err != nil {
				return err
			}
			return runVolumeCreate(cmd.Context(), opts)
		},
	}
	opts.RegisterProvider(
		app, cmd, "the provider `NAME` that keeps it (default: the configured one, or the first usable one)",
	)
	cmd.Flags().IntVar(
		&opts.Options.Version, "version", 0, "version `N` of the volume's format, if the provider has several",
	)
	cmd.Flags().Var(
		(*cli.BytesValue)(&opts.Options.Size), "size", "limit of its files, such as 10G, where the provider enforces one",
	)
	cmd.Flags().StringArrayVarP(&labels, "label", "l", nil, "label `KEY=VALUE` (repeatable)")
	cli.JSONFlag(cmd, &opts.JSON, volumeFields)
	return cmd
}

func runVolumeCreate(ctx context.Context, opts *VolumeCreateOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	made, err := service.Stores.CreateVolume(ctx, opts.Provider, opts.Name, opts.Options)
	if err != nil {
		return err
	}
	return opts.Tell(opts.App, "volume", made.Name, made)
}

// VolumeInspectOptions are the options of volume inspect.
type VolumeInspectOptions struct {
	cli.StoreFlags

	App   *cli.App
	Names []string
}

// NewVolumeInspect makes "sb volume inspect".
func NewVolumeInspect(app *cli.App) *cobra.Command {
	opts := &VolumeInspectOptions{App: app}
	cmd := &cobra.Command{
		Use: "inspect VOLUME...", Short: "Show volumes and the sandboxes that use them as JSON",
		Long: "Print a JSON array with each volume and the sandboxes that mount it, now or after their next start.\n\n" +
			"FIELDS\n  " + volumeFields + ", used_by (sandbox, name, state, target, read_only)",
		Example: "  sb volume inspect data\n  sb volume inspect data | jq -r '.[0].used_by[].name'",
		Args:    cli.AtLeast("VOLUME"), ValidArgsFunction: app.CompleteStored(volumeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Names = args
			return runVolumeInspect(cmd.Context(), opts)
		},
	}
	opts.RegisterProvider(app, cmd, "the provider `NAME` that keeps them (default: the one that has such a volume)")
	var always bool
	cli.JSONFlag(cmd, &always, "which it always does; accepted because every command has it")
	return cmd
}

func runVolumeInspect(ctx context.Context, opts *VolumeInspectOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	var found []service.VolumeUse
	var failed []error
	for _, name := range opts.Names {
		use, err := svc.Stores.InspectVolume(ctx, opts.Provider, name)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		found = append(found, use)
	}
	if err := output.List(opts.App.Streams.Out, found); err != nil {
		return err
	}
	return errors.Join(failed...)
}

// VolumePruneOptions are the options of volume prune.
type VolumePruneOptions struct {
	cli.StoreFlags

	App *cli.App
	Yes bool
}

// NewVolumePrune makes "sb volume prune".
func NewVolumePrune(app *cli.App) *cobra.Command {
	opts := &VolumePruneOptions{App: app}
	cmd := &cobra.Command{
		Use: "prune [flags]", Short: "Remove the volumes that no sandbox uses",
		Long: "Remove the volumes that no sandbox mounts, with their files, after a question with names and sizes.\n" +
			"The volumes of stopped persistent sandboxes are kept.",
		Example: "  sb volume prune\n  sb volume prune --provider local --yes",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runVolumePrune(cmd.Context(), opts) },
	}
	opts.RegisterProvider(app, cmd, "only those of the provider `NAME`")
	cmd.Flags().BoolVarP(&opts.Yes, "yes", "y", false, "do not ask")
	cli.JSONFlag(cmd, &opts.JSON, cli.OutcomeFields("removed"))
	return cmd
}

func runVolumePrune(ctx context.Context, opts *VolumePruneOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	unused, failed := svc.Stores.UnusedVolumes(ctx, opts.Provider)
	if len(unused) == 0 && failed != nil {
		return failed
	}
	names, labels := make([]string, len(unused)), make([]string, len(unused))
	for i, v := range unused {
		names[i] = v.Provider + "/" + v.Name
		labels[i] = names[i]
		if v.Size > 0 {
			labels[i] += " (" + v.Size.String() + ")"
		}
	}
	if len(unused) > 0 && !opts.Yes {
		question := "Remove volume " + strings.Join(labels, ", ") + "?"
		if err := cli.Confirm(opts.App, question, "--yes"); err != nil {
			return err
		}
	}
	return errors.Join(failed, cli.ForEachName(opts.App, names, "removed", opts.JSON, func(name string) (string, error) {
		provider, volume, _ := strings.Cut(name, "/")
		return name, core.Wrap("volume prune", name, svc.Stores.RemoveVolume(ctx, provider, volume))
	}))
}

// NewVolumeLs makes "sb volume ls".
func NewVolumeLs(app *cli.App) *cobra.Command {
	return cli.NewStoreLs(app, cli.StoreList[core.VolumeInfo]{
		Short: "List volumes", Long: "List the volumes of all providers or of one.",
		Example: "  sb volume ls\n  sb volume ls --provider modal --json",
		Fields:  volumeFields, Quiet: "names",
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
		Long:    "Remove volumes and their files; a mounted volume is kept. On a terminal it asks first.",
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
