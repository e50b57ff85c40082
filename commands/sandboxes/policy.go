package sandboxes

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// NewPolicy makes "sb policy", the group of commands for limits and network policies.
func NewPolicy(app *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use: "policy", Aliases: []string{"policies"}, Short: "Limits of sandboxes and how well they are enforced",
		Long:    "Show and change where a sandbox may connect to, and show how well a provider enforces limits.",
		Example: "  sb policy show dev\n  sb policy set dev --allow pypi.org\n  sb policy explain --allow pypi.org --disk 1G",
	}, NewPolicyShow(app), NewPolicySet(app), NewPolicyExplain(app))
}

// NewPolicyShow makes "sb policy show".
func NewPolicyShow(app *cli.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show SANDBOX", Short: "Show the limits of a sandbox and how they are enforced",
		Long: "Print each limit and policy of a sandbox, the mechanism that enforces it, and its gaps. If the\n" +
			"sandbox does not run, the output shows how a start now would enforce them.",
		Example: "  sb policy show dev\n  sb policy show dev --json | jq '.[] | select(.strength != \"full\")'",
		Args:    cli.Exactly("SANDBOX"), ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPolicyShow(cmd.Context(), app, args[0], asJSON)
		},
	}
	cli.JSONFlag(cmd, &asJSON, "an array of field, asked, strength (full, partial, unenforced or unknown), how, gap")
	return cmd
}

func runPolicyShow(ctx context.Context, app *cli.App, ref string, asJSON bool) error {
	service, err := app.Service()
	if err != nil {
		return err
	}
	list, err := service.Policy.Enforcement(ctx, ref)
	if err != nil {
		return err
	}
	if asJSON {
		return output.List(app.Streams.Out, list)
	}
	table := app.Table("FIELD", "VALUE", "HELD", "HOW", "GAP").Wrapped()
	for _, e := range list {
		table.Row(enforcementCells(e)...)
	}
	return table.Write(app.Streams.Out)
}

// enforcementCells are the cells of a table for an enforcement.
func enforcementCells(e core.Enforcement) []string {
	value := e.Value
	if e.Default {
		value += " (default)"
	}
	return []string{e.Field, value, string(e.Strength), e.How, e.Gap}
}

// PolicySetOptions are the options of policy set.
type PolicySetOptions struct {
	App     *cli.App
	Ref     string
	Network core.Network
	JSON    bool
}

// NewPolicySet makes "sb policy set".
func NewPolicySet(app *cli.App) *cobra.Command {
	opts := &PolicySetOptions{App: app}
	var mode string
	cmd := &cobra.Command{
		Use: "set SANDBOX (--network MODE | --allow HOSTS)", Short: "Change where a running sandbox may connect to",
		Long:    "Replace the network policy of a running sandbox and print the new one.",
		Example: "  sb policy set dev --network none\n  sb policy set dev --allow pypi.org,files.pythonhosted.org",
		Args:    cli.Exactly("SANDBOX"), ValidArgsFunction: cli.FirstArg(app.CompleteSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.Ref = args[0]
			opts.Network.Mode = core.NetworkMode(mode)
			if mode == "" && cmd.Flags().Changed("allow") {
				opts.Network.Mode = core.NetworkAllow
			}
			if opts.Network.Mode == core.NetworkDefault {
				return cli.Usagef(cmd, "%s needs --network or --allow", cmd.CommandPath())
			}
			return runPolicySet(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&mode, "network", "", "network `MODE`: none, all, allow or internal")
	cmd.Flags().StringSliceVar(
		&opts.Network.Allow, "allow", nil, "allow connections to `HOSTS` (domains and CIDRs) only; implies --network "+
			"allow (repeatable)",
	)
	cli.Complete(
		cmd, "network",
		cli.Fixed(string(core.NetworkNone), string(core.NetworkAll), string(core.NetworkAllow), string(core.NetworkInternal)),
	)
	cli.JSONFlag(cmd, &opts.JSON, "mode, allow")
	return cmd
}

func runPolicySet(ctx context.Context, opts *PolicySetOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	changed, err := service.Policy.SetNetwork(ctx, opts.Ref, opts.Network)
	if err != nil {
		return err
	}
	now := changed.Spec.Network
	return opts.App.Tell(cli.Made{
		Op: "policy set", ID: opts.Ref, Value: now,
		Text: strings.TrimSpace(string(now.Mode) + " " + strings.Join(now.Allow, " ")),
		Fact: fmt.Sprintf("the policy of %s has changed", opts.Ref),
		Next: fmt.Sprintf("sb policy show %s prints it", opts.Ref),
	}, opts.JSON)
}

// PolicyExplainOptions are the options of policy explain.
type PolicyExplainOptions struct {
	App  *cli.App
	Spec core.Spec
	JSON bool
}

// NewPolicyExplain makes "sb policy explain".
func NewPolicyExplain(app *cli.App) *cobra.Command {
	opts := &PolicyExplainOptions{App: app}
	flags := &cli.SpecFlags{}
	cmd := &cobra.Command{
		Use: "explain [launch flags]", Short: "Show how well each provider would enforce limits",
		Long: "Show how each provider, or the one of --provider, would enforce the limits of a launch, and the\n" +
			"gaps. Nothing is launched; limits marked (default) come from the configuration.",
		Example: "  sb policy explain --allow pypi.org\n  sb policy explain --provider docker --disk 1G --memory 512M",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := flags.Spec(cmd.Flags(), app.Streams, app.LookupEnv)
			if err != nil {
				return err
			}
			opts.Spec = spec
			return runPolicyExplain(cmd.Context(), opts)
		},
	}
	flags.Register(app, cmd)
	cli.JSONFlag(cmd, &opts.JSON, "an array of provider, enforcement (field, asked, strength, how, gap, default)")
	return cmd
}

func runPolicyExplain(ctx context.Context, opts *PolicyExplainOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	explained, err := service.Policy.Explain(ctx, opts.Spec)
	if err != nil {
		return err
	}
	if opts.JSON {
		return output.List(opts.App.Streams.Out, explained)
	}
	table := opts.App.Table("PROVIDER", "FIELD", "VALUE", "HELD", "HOW", "GAP").Wrapped()
	for _, p := range explained {
		for _, e := range p.Enforcement {
			table.Row(append([]string{p.Provider}, enforcementCells(e)...)...)
		}
	}
	return table.Write(opts.App.Streams.Out)
}
