package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// PolicyExplainOptions are what policy explain works with.
type PolicyExplainOptions struct {
	App  *App
	Spec core.Spec
	JSON bool
}

// NewPolicyExplain makes "sb policy explain".
func NewPolicyExplain(app *App) *cobra.Command {
	opts := &PolicyExplainOptions{App: app}
	flags := &SpecFlags{}
	cmd := &cobra.Command{
		Use: "explain [launch flags]", Short: "Say how well each provider would hold what a launch asks for",
		Long: "Say of each provider, or of the one named by --provider, what would hold the limits and policies that the\n" +
			"flags of \"sb launch\" ask for, and what would get through. Nothing is launched, but what can be tried is:\n" +
			"a control group is made and removed, and an engine is asked for its limits. A limit marked (default) comes\n" +
			"from the configuration; --require does not check it. \"sb launch --explain\" lists the providers that cannot\n" +
			"launch it at all." + exitStatusHelp,
		Example: "  sb policy explain --allow pypi.org\n  sb policy explain --provider docker --disk 1G --memory 512M",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := flags.spec(cmd.Flags(), app.Streams, app.LookupEnv)
			if err != nil {
				return err
			}
			opts.Spec = spec
			return runPolicyExplain(cmd.Context(), opts)
		},
	}
	flags.register(app, cmd)
	jsonFlag(cmd, &opts.JSON, "an array of provider, enforcement (field, asked, strength, how, gap, default)")
	return cmd
}

func runPolicyExplain(ctx context.Context, opts *PolicyExplainOptions) error {
	service, err := opts.App.Service()
	if err != nil {
		return err
	}
	explained, err := service.ExplainPolicy(ctx, opts.Spec)
	if err != nil {
		return err
	}
	if opts.JSON {
		return output.List(opts.App.Streams.Out, explained)
	}
	table := opts.App.table("PROVIDER", "FIELD", "ASKED", "HELD", "HOW", "GAP").Wrapped()
	for _, p := range explained {
		for _, e := range p.Enforcement {
			table.Row(append([]string{p.Provider}, enforcementCells(e)...)...)
		}
	}
	return table.Write(opts.App.Streams.Out)
}
