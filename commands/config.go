package commands

import "github.com/spf13/cobra"

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
