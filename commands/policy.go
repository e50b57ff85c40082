package commands

import "github.com/spf13/cobra"

// NewPolicy makes "sb policy", which holds what concerns limits and network policies.
func NewPolicy(app *App) *cobra.Command {
	return group(&cobra.Command{
		Use: "policy", Aliases: []string{"policies"}, Short: "What limits a sandbox, and how well that is held",
		Long: "Show and change where a sandbox may connect to, and see how well a provider holds the limits that a launch\n" +
			"asks for. \"sb launch --require\" refuses a provider that does not fully hold each limit and policy that the\n" +
			"launch names. Limits that \"sb policy explain\" marks as (default) do not count." + exitStatusHelp,
		Example: "  sb policy show dev\n  sb policy set dev --allow pypi.org\n  sb policy explain --allow pypi.org --disk 1G",
	}, NewPolicyShow(app), NewPolicySet(app), NewPolicyExplain(app))
}
