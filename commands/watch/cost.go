package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/output"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// CostOptions are the options of cost.
type CostOptions struct {
	App    *cli.App
	Filter service.CostFilter
	JSON   bool
}

// NewCost makes "sb cost".
func NewCost(app *cli.App) *cobra.Command {
	opts := &CostOptions{App: app}
	var since, by string
	cmd := &cobra.Command{
		Use: "cost", Short: "Show the cost of sandboxes",
		Long: "Estimate the cost of sandboxes from this machine's audit log, their providers and the configured\n" +
			"prices. Prices, with date and source, are on stderr.",
		Example: "  sb cost\n  sb cost --by app --since 168h\n  sb cost --by day --since 2026-01-01 --json | jq .totals",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Filter.By = service.CostBy(by)
			if since != "" {
				at, err := cli.ParseTime("--since", since, app.Now())
				if err != nil {
					return err
				}
				opts.Filter.Since = at
			}
			return runCost(cmd.Context(), opts)
		},
	}
	cmd.Flags().StringVar(&by, "by", string(service.CostBySandbox), "sum by `WHAT`: sandbox, app or day (of UTC)")
	cmd.Flags().StringVar(&since, "since", "", "only costs since `TIME`, such as 2026-01-02 or 7d (ago)")
	cmd.Flags().StringVar(&opts.Filter.App, "app", "", "only sandboxes of the app `NAME`")
	cmd.Flags().StringVar(&opts.Filter.Provider, "provider", "", "only sandboxes of the provider `NAME`")
	cli.Complete(cmd, "by", cli.Fixed(string(service.CostBySandbox), string(service.CostByApp), string(service.CostByDay)))
	cli.Complete(cmd, "app", app.CompleteApps)
	cli.Complete(cmd, "provider", app.CompleteProviders)
	cli.JSONFlag(
		cmd, &opts.JSON,
		"sums (key, name, provider, sandboxes, time_ns, amount, currency), totals by currency, prices by provider, unpriced",
	)
	return cmd
}

func runCost(ctx context.Context, opts *CostOptions) error {
	svc, err := opts.App.Service()
	if err != nil {
		return err
	}
	report, err := svc.Records.Cost(ctx, opts.Filter)
	if err != nil {
		return err
	}
	for _, warning := range report.Warnings {
		_, _ = fmt.Fprintf(opts.App.Streams.Err, "warning: %s\n", output.Clean(warning))
	}
	if opts.JSON {
		return errors.Join(
			output.JSON(opts.App.Streams.Out, report), opts.App.WarnUnavailable(report.Failures, opts.Filter.Provider != ""),
		)
	}
	table := opts.App.Table(strings.ToUpper(string(opts.Filter.By)), "PROVIDER", "SANDBOXES", "TIME", "COST")
	for _, sum := range report.Sums {
		table.Row(
			cmp.Or(sum.Name, sum.Key), sum.Provider, strconv.Itoa(sum.Sandboxes), output.Span(sum.Time),
			core.Cost{Amount: sum.Amount, Currency: sum.Currency}.String(),
		)
	}
	for _, currency := range slices.Sorted(maps.Keys(report.Totals)) {
		table.Row("total", "", "", "", core.Cost{Amount: report.Totals[currency], Currency: currency}.String())
	}
	err = table.Write(opts.App.Streams.Out)
	for _, provider := range slices.Sorted(maps.Keys(report.Prices)) {
		p := report.Prices[provider]
		_, _ = fmt.Fprintf(
			opts.App.Streams.Err, "prices of %s: %s, from %s\n", provider, p.Date, cmp.Or(p.Source, "the configuration"),
		)
	}
	if len(report.Unpriced) > 0 {
		_, _ = fmt.Fprintf(
			opts.App.Streams.Err, "warning: the GPU of %s has no price and is not included\n",
			strings.Join(report.Unpriced, ", "),
		)
	}
	return errors.Join(err, opts.App.WarnUnavailable(report.Failures, opts.Filter.Provider != ""))
}
