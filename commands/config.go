package commands

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core"
)

// NewConfig makes "sb config" and the commands below it.
func NewConfig(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use:   "config",
		Short: "Show and change settings",
		Long: "Show and change settings. They come from config.yaml, from SB_* variables above it (SB_DEFAULTS_MEMORY\n" +
			"for defaults.memory), and from flags above both." + exitStatusHelp,
		Example: "  sb config list --show-origin\n  sb config set defaults.memory 4GiB",
	}, NewConfigGet(app, nil), NewConfigSet(app, nil), NewConfigList(app, nil), NewConfigPath(app, nil), NewConfigInit(app, nil))
}

// ConfigGetOptions are what config get works with.
type ConfigGetOptions struct {
	App *App
	Key string
}

// NewConfigGet makes "sb config get".
func NewConfigGet(app *App, runF func(context.Context, *ConfigGetOptions) error) *cobra.Command {
	opts := &ConfigGetOptions{App: app}
	return &cobra.Command{
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
}

func runConfigGet(_ context.Context, opts *ConfigGetOptions) error {
	config, err := opts.App.Config()
	if err != nil {
		return err
	}
	names := make([]string, 0, len(config.Settings))
	for _, s := range config.Settings {
		if s.Key == opts.Key {
			_, err := fmt.Fprintln(opts.App.Streams.Out, s.Value)
			return err
		}
		names = append(names, s.Key)
	}
	e := core.Errorf(core.KindNotFound, "config", opts.Key, "there is no setting %q", opts.Key)
	if near := core.Nearest(opts.Key, names); near != "" {
		return e.WithHint("did you mean %q?", near)
	}
	return e.WithHint("sb config list shows all settings")
}

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
		Args:              exactly("KEY", "VALUE"),
		ValidArgsFunction: app.completeSettings,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Key, opts.Value = args[0], args[1]
			return orRun(runF, runConfigSet)(cmd.Context(), opts)
		},
	}
}

func runConfigSet(_ context.Context, opts *ConfigSetOptions) error {
	paths, err := opts.App.Paths()
	if err != nil {
		return err
	}
	return configs.Set(paths.Config, opts.Key, opts.Value)
}

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
	table := opts.App.table("KEY", "VALUE", last)
	for _, s := range config.Settings {
		about := s.Doc
		if opts.ShowOrigin {
			about = s.Origin
		}
		table.Row(s.Key, s.Value, about)
	}
	return table.Write(opts.App.Streams.Out)
}

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

// completeSettings completes the first argument by the names of settings.
func (a *App) completeSettings(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	config, err := a.Config()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, s := range config.Settings {
		names = append(names, s.Key+"\t"+s.Doc)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
