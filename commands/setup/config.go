package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/configs"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers"
)

// NewConfig makes "sb config" and the commands below it.
func NewConfig(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "config",
		Short: "Show and change settings",
		Long: "Show and change settings. Flags override SB_* variables (SB_DEFAULTS_MEMORY for defaults.memory), which\n" +
			"override config.yaml.",
		Example: "  sb config list --show-origin\n  sb config set defaults.memory 4GiB",
	}, NewConfigGet(app), NewConfigSet(app), NewConfigList(app), NewConfigPath(app), NewConfigInit(app))
}

// completeSettings completes the first argument by the names of settings.
func completeSettings(a *cli.App) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
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
}

// ConfigSetOptions are the options of config set.
type ConfigSetOptions struct {
	App        *cli.App
	Key, Value string
}

// NewConfigSet makes "sb config set".
func NewConfigSet(app *cli.App) *cobra.Command {
	opts := &ConfigSetOptions{App: app}
	return &cobra.Command{
		Use:   "set KEY VALUE",
		Short: "Write one setting to the configuration file",
		Long: "Write one setting to the configuration file; comments and order are kept. An invalid value is\n" +
			"refused.",
		Example:           "  sb config set defaults.memory 4GiB\n  sb config set quotas.max_sandboxes 20",
		Args:              keyAndValue,
		ValidArgsFunction: completeSettings(app),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Key, opts.Value = args[0], args[1]
			return runConfigSet(cmd.Context(), opts)
		},
	}
}

// keyAndValue is exactly("KEY", "VALUE") with a value that may be empty, as that of a text is at first.
func keyAndValue(cmd *cobra.Command, args []string) error {
	if len(args) == 2 && args[1] == "" {
		args = []string{args[0], "VALUE"}
	}
	return cli.Exactly("KEY", "VALUE")(cmd, args)
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
			return core.Errorf(core.KindUsage, "config", opts.Key, "there is no provider %q", opts.Value).
				WithHint("use one of %s", strings.Join(names, ", "))
		}
	}
	return configs.Set(paths.Config, opts.Key, opts.Value)
}

// ConfigInitOptions are the options of config init.
type ConfigInitOptions struct {
	App   *cli.App
	Force bool
}

// NewConfigInit makes "sb config init".
func NewConfigInit(app *cli.App) *cobra.Command {
	opts := &ConfigInitOptions{App: app}
	cmd := &cobra.Command{
		Use:     "init",
		Short:   "Write a configuration file that explains every setting",
		Long:    "Write a configuration file that explains every setting and changes none.",
		Example: "  sb config init",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runConfigInit(cmd.Context(), opts)
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

// ConfigGetOptions are the options of config get.
type ConfigGetOptions struct {
	App  *cli.App
	Key  string
	JSON bool
}

// NewConfigGet makes "sb config get".
func NewConfigGet(app *cli.App) *cobra.Command {
	opts := &ConfigGetOptions{App: app}
	cmd := &cobra.Command{
		Use:               "get KEY",
		Short:             "Print the value of one setting",
		Long:              "Print the value of one setting in effect: the default, the file's or the variable's.",
		Example:           "  sb config get defaults.memory",
		Args:              cli.Exactly("KEY"),
		ValidArgsFunction: completeSettings(app),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Key = args[0]
			return runConfigGet(cmd.Context(), opts)
		},
	}
	cli.JSONFlag(cmd, &opts.JSON, "key, value, origin, doc")
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

// ConfigListOptions are the options of config list.
type ConfigListOptions struct {
	App        *cli.App
	ShowOrigin bool
	JSON       bool
}

// NewConfigList makes "sb config list".
func NewConfigList(app *cli.App) *cobra.Command {
	opts := &ConfigListOptions{App: app}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "Show all settings",
		Long:    "Show all settings with the values in effect.",
		Example: "  sb config list\n  sb config list --show-origin",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runConfigList(cmd.Context(), opts)
		},
	}
	cmd.Flags().BoolVar(&opts.ShowOrigin, "show-origin", false, "show the origin of each value")
	cli.JSONFlag(cmd, &opts.JSON, "an array of key, value, origin, doc")
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
	last := "DESCRIPTION"
	if opts.ShowOrigin {
		last = "ORIGIN"
	}
	table := opts.App.Table("KEY", "VALUE", last).Wrapped()
	for _, s := range config.Settings {
		about := s.Doc
		if opts.ShowOrigin {
			about = s.Origin
		}
		table.Row(s.Key, s.Value, about)
	}
	return table.Write(opts.App.Streams.Out)
}

// ConfigPathOptions are the options of config path.
type ConfigPathOptions struct{ App *cli.App }

// NewConfigPath makes "sb config path".
func NewConfigPath(app *cli.App) *cobra.Command {
	opts := &ConfigPathOptions{App: app}
	return &cobra.Command{
		Use:     "path",
		Short:   "Print the configuration file's path",
		Long:    "Print the configuration file's path, even if the file does not exist.",
		Example: "  sb config path",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runConfigPath(cmd.Context(), opts)
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
