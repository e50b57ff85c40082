package commands

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
)

// ProviderLsOptions are what provider ls works with.
type ProviderLsOptions struct {
	App   *App
	JSON  bool
	Quiet bool
}

// NewProviderLs makes "sb provider ls".
func NewProviderLs(app *App, runF func(context.Context, *ProviderLsOptions) error) *cobra.Command {
	opts := &ProviderLsOptions{App: app}
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List providers and what they can do",
		Long:    "List the providers in the order in which --provider auto considers them." + exitStatusHelp,
		Example: "  sb provider ls\n  sb provider ls --json | jq '.[] | {name, usable}'",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return orRun(runF, runProviderLs)(cmd.Context(), opts)
		},
	}
	jsonFlag(cmd, &opts.JSON, "an array of name, usable, error, hint, capabilities (has, images, gpus, isolation)")
	quietFlag(cmd, &opts.Quiet, "names")
	return cmd
}

func runProviderLs(ctx context.Context, opts *ProviderLsOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	out := opts.App.Streams.Out
	providers := service.Providers(ctx, false)
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
	table := opts.App.table("NAME", "USABLE", "ISOLATION", "IMAGES", "GPUS", "WHY NOT").Wrapped()
	for _, p := range providers {
		table.Row(p.Name, yesNo(p.Usable), p.Capabilities.Isolation, strings.Join(p.Capabilities.Images, " "),
			strings.Join(slices.Sorted(maps.Keys(p.Capabilities.GPUs)), " "), p.Error)
	}
	return table.Write(out)
}
