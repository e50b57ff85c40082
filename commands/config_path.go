package commands

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// ConfigPathOptions are what config path works with.
type ConfigPathOptions struct{ App *App }

// NewConfigPath makes "sb config path".
func NewConfigPath(app *App, runF func(context.Context, *ConfigPathOptions) error) *cobra.Command {
	opts := &ConfigPathOptions{App: app}
	return &cobra.Command{
		Use:     "path",
		Short:   "Print the configuration file's path",
		Long:    "Print the configuration file's path, whether there is one or not." + exitStatusHelp,
		Example: "  sb config path",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return orRun(runF, runConfigPath)(cmd.Context(), opts)
		},
	}
}

func runConfigPath(_ context.Context, opts *ConfigPathOptions) error {
	paths, err := opts.App.Paths()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(opts.App.Streams.Out, paths.Config)
	return err
}
