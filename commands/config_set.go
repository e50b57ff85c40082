package commands

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers"
)

// ConfigSetOptions are what config set works with.
type ConfigSetOptions struct {
	App        *App
	Key, Value string
}

// NewConfigSet makes "sb config set".
func NewConfigSet(app *App, runF func(context.Context, *ConfigSetOptions) error) *cobra.Command {
	opts := &ConfigSetOptions{App: app}
	return &cobra.Command{
		Use:               "set KEY VALUE",
		Short:             "Write one setting to the configuration file",
		Long:              "Write one setting to the configuration file. Its comments and order stay. A value that is\nnot valid is refused, and the file stays as it was." + exitStatusHelp,
		Example:           "  sb config set defaults.memory 4GiB\n  sb config set quotas.max_sandboxes 20",
		Args:              keyAndValue,
		ValidArgsFunction: app.completeSettings,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Key, opts.Value = args[0], args[1]
			return orRun(runF, runConfigSet)(cmd.Context(), opts)
		},
	}
}

// keyAndValue is exactly("KEY", "VALUE") with a value that may be empty, as that of a text is at first.
func keyAndValue(cmd *cobra.Command, args []string) error {
	if len(args) == 2 && args[1] == "" {
		args = []string{args[0], "VALUE"}
	}
	return exactly("KEY", "VALUE")(cmd, args)
}

func runConfigSet(_ context.Context, opts *ConfigSetOptions) error {
	paths, err := opts.App.Paths()
	if err != nil {
		return err
	}
	if opts.Key == "provider" && opts.Value != core.ProviderAuto {
		names := []string{core.ProviderAuto}
		for _, factory := range providers.Builtin(providers.Options{}) {
			names = append(names, factory.Name)
		}
		if !slices.Contains(names, opts.Value) {
			return core.Errorf(core.KindUsage, "config", opts.Key, "there is no provider %q", opts.Value).WithHint("it is one of %s", strings.Join(names, ", "))
		}
	}
	return configs.Set(paths.Config, opts.Key, opts.Value)
}
