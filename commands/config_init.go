package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/configs"
)

// ConfigInitOptions are what config init works with.
type ConfigInitOptions struct {
	App   *App
	Force bool
}

// NewConfigInit makes "sb config init".
func NewConfigInit(app *App, runF func(context.Context, *ConfigInitOptions) error) *cobra.Command {
	opts := &ConfigInitOptions{App: app}
	cmd := &cobra.Command{
		Use:     "init",
		Short:   "Write a configuration file that explains every setting",
		Long:    "Write a configuration file that explains every setting and changes none." + exitStatusHelp,
		Example: "  sb config init",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return orRun(runF, runConfigInit)(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVar(&opts.Force, "force", false, "replace a file that exists")
	return cmd
}

func runConfigInit(_ context.Context, opts *ConfigInitOptions) error {
	paths, err := opts.App.Paths()
	if err != nil {
		return err
	}
	return configs.Init(paths.Config, opts.Force)
}
