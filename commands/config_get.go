package commands

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// ConfigGetOptions are what config get works with.
type ConfigGetOptions struct {
	App  *App
	Key  string
	JSON bool
}

// NewConfigGet makes "sb config get".
func NewConfigGet(app *App, runF func(context.Context, *ConfigGetOptions) error) *cobra.Command {
	opts := &ConfigGetOptions{App: app}
	cmd := &cobra.Command{
		Use:               "get KEY",
		Short:             "Print the value of one setting",
		Long:              "Print the value of one setting, with all layers applied." + exitStatusHelp,
		Example:           "  sb config get defaults.memory",
		Args:              exactly("KEY"),
		ValidArgsFunction: app.completeSettings,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Key = args[0]
			return orRun(runF, runConfigGet)(cmd.Context(), opts)
		},
	}
	jsonFlag(cmd, &opts.JSON, "key, value, origin, doc")
	return cmd
}

func runConfigGet(_ context.Context, opts *ConfigGetOptions) error {
	config, err := opts.App.Config()
	if err != nil {
		return err
	}
	names := make([]string, 0, len(config.Settings))
	for _, s := range config.Settings {
		if s.Key == opts.Key && opts.JSON {
			return output.JSON(opts.App.Streams.Out, s)
		}
		if s.Key == opts.Key {
			_, err := fmt.Fprintln(opts.App.Streams.Out, s.Value)
			return err
		}
		names = append(names, s.Key)
	}
	e := core.Errorf(core.KindUsage, "config", opts.Key, "there is no setting %q", opts.Key)
	if near := core.Nearest(opts.Key, names); near != "" {
		return e.WithHint("did you mean %q?", near)
	}
	return e.WithHint("sb config list shows all settings")
}
