package setup

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
)

// NewProvider makes "sb provider", the group of commands for providers.
func NewProvider(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "provider",
		Aliases: []string{"providers"},
		Short:   "Show providers, which run sandboxes",
		Long:    "Show providers, which run sandboxes.",
		Example: "  sb provider ls",
	}, NewProviderLs(app))
}

// ProviderLsOptions are the options of provider ls.
type ProviderLsOptions struct {
	App   *cli.App
	JSON  bool
	Quiet bool
}

// NewProviderLs makes "sb provider ls".
func NewProviderLs(app *cli.App) *cobra.Command {
	opts := &ProviderLsOptions{App: app}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List providers and their capabilities",
		Long: "List the providers in the order in which --provider auto tries them. Images that need no registry\n" +
			"are listed by name; any stands for every image of a registry.",
		Example: "  sb provider ls\n  sb provider ls --json | jq '.[] | {name, usable}'",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runProviderLs(cmd.Context(), opts)
		},
	}
	cli.JSONFlag(cmd, &opts.JSON, "an array of name, usable, error, hint, capabilities (has, images, gpus, isolation)")
	cli.QuietFlag(cmd, &opts.Quiet, "names")
	return cmd
}

func runProviderLs(ctx context.Context, opts *ProviderLsOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	out := opts.App.Streams.Out
	providers := service.Providers.List(ctx, false)
	switch {
	case opts.JSON:
		return output.List(out, providers)
	case opts.Quiet:
		for _, p := range providers {
			if _, err := fmt.Fprintln(out, p.Name); err != nil {
				return err
			}
		}
		return nil
	}
	table := opts.App.Table("NAME", "USABLE", "ISOLATION", "IMAGES", "GPUS", "WHY NOT").Wrapped()
	for _, p := range providers {
		table.Row(p.Name, cli.YesNo(p.Usable), p.Capabilities.Isolation, images(p.Capabilities),
			strings.Join(slices.Sorted(maps.Keys(p.Capabilities.GPUs)), " "), p.Error)
	}
	return table.Write(out)
}

// images returns the images that a launch can use: those that need no registry, and "any" if a registry's can be used.
func images(caps core.Capabilities) string {
	names := caps.Images
	if caps.Can(core.CapImages) {
		names = append(slices.Clone(names), "any")
	}
	return strings.Join(names, " ")
}
