package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
)

// NewPolicyShow makes "sb policy show".
func NewPolicyShow(app *App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show SANDBOX", Short: "Show what limits a sandbox, and how well that is held",
		Long: "Print each limit and policy of a sandbox with what holds it and what it lets through. Of a running sandbox\n" +
			"this is read from its control group or its engine; of another it is what starting it now would give." + exitStatusHelp,
		Example: "  sb policy show dev\n  sb policy show dev --json | jq '.[] | select(.strength != \"full\")'",
		Args:    exactly("SANDBOX"), ValidArgsFunction: firstArg(app.completeSandboxes),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPolicyShow(cmd.Context(), app, args[0], asJSON)
		},
	}
	jsonFlag(cmd, &asJSON, "an array of field, asked, strength (full, partial, unenforced or unknown), how, gap")
	return cmd
}

func runPolicyShow(ctx context.Context, app *App, ref string, asJSON bool) error {
	service, err := app.Service()
	if err != nil {
		return err
	}
	list, err := service.Enforcement(ctx, ref)
	if err != nil {
		return err
	}
	if asJSON {
		return output.List(app.Streams.Out, list)
	}
	table := app.table("FIELD", "ASKED", "HELD", "HOW", "GAP").Wrapped()
	for _, e := range list {
		table.Row(enforcementCells(e)...)
	}
	return table.Write(app.Streams.Out)
}

// enforcementCells are what a table shows of an enforcement.
func enforcementCells(e core.Enforcement) []string {
	asked := e.Asked
	if e.Default {
		asked += " (default)"
	}
	return []string{e.Field, asked, string(e.Strength), e.How, e.Gap}
}
