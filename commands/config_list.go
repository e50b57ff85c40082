package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
)

// ConfigListOptions are what config list works with.
type ConfigListOptions struct {
	App        *App
	ShowOrigin bool
	JSON       bool
}

// NewConfigList makes "sb config list".
func NewConfigList(app *App, runF func(context.Context, *ConfigListOptions) error) *cobra.Command {
	opts := &ConfigListOptions{App: app}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "Show all settings",
		Long:    "Show all settings with the values in force." + exitStatusHelp,
		Example: "  sb config list\n  sb config list --show-origin",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return orRun(runF, runConfigList)(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVar(&opts.ShowOrigin, "show-origin", false, "say where each value comes from")
	jsonFlag(cmd, &opts.JSON, "an array of key, value, origin, doc")
	return cmd
}

func runConfigList(_ context.Context, opts *ConfigListOptions) error {
	config, err := opts.App.Config()
	if err != nil {
		return err
	}
	if opts.JSON {
		return output.JSON(opts.App.Streams.Out, config.Settings)
	}
	last := "WHAT IT IS"
	if opts.ShowOrigin {
		last = "ORIGIN"
	}
	table := opts.App.table("KEY", "VALUE", last).Wrapped()
	for _, s := range config.Settings {
		about := s.Doc
		if opts.ShowOrigin {
			about = s.Origin
		}
		table.Row(s.Key, s.Value, about)
	}
	return table.Write(opts.App.Streams.Out)
}
