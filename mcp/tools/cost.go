package tools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

type costIn struct {
	By    string `json:"by,omitempty" enum:"sandbox|app|day" default:"sandbox"`
	App   string `json:"app,omitempty" jsonschema:"only sandboxes of this app"`
	Hours int    `json:"hours,omitempty" jsonschema:"only the last hours"`
}

type costSum struct {
	Key      string  `json:"key" jsonschema:"id of a sandbox, name of an app, or a day"`
	Name     string  `json:"name,omitempty"`
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
	Hours    float64 `json:"hours"`
}

type costOut struct {
	Sums     []costSum          `json:"sums"`
	Totals   map[string]float64 `json:"totals" jsonschema:"by currency"`
	Unpriced []string           `json:"unpriced,omitempty" jsonschema:"sandboxes whose GPU has no price"`
	Failures []string           `json:"failures,omitempty" jsonschema:"providers that did not answer, and why"`
}

func (o costOut) Text() string {
	lines := make([]string, 0, len(o.Sums)+1)
	for _, sum := range o.Sums {
		lines = append(lines, fmt.Sprintf("%s: %s in %.2f h", strings.TrimSpace(sum.Key+
			" "+sum.Name), core.Cost{Amount: sum.Amount, Currency: sum.Currency}, sum.Hours))
	}
	for _, currency := range slices.Sorted(maps.Keys(o.Totals)) {
		lines = append(lines, "total: "+core.Cost{Amount: o.Totals[currency], Currency: currency}.String())
	}
	if len(lines) == 0 {
		lines = append(lines, "no costs")
	}
	if len(o.Unpriced) > 0 {
		lines = append(lines, "without a price: "+strings.Join(o.Unpriced, ", "))
	}
	return list(slices.Concat(o.Failures, lines))
}

func costTools() []Tool {
	return []Tool{Define(Tool{
		Name: "sandbox_cost", Title: "Costs of sandboxes", Toolset: setup.Lifecycle, Extra: true, ReadOnly: true,
		Idempotent: true,
		Description: "Sum the costs of sandboxes so far, by sandbox, app or day. Only providers with prices have " +
			"costs.",
	}, cost)}
}

func cost(ctx context.Context, c *Call, in costIn) (costOut, error) {
	out := costOut{Sums: []costSum{}, Totals: map[string]float64{}}
	filter := service.CostFilter{By: service.CostBy(in.By), App: in.App}
	if in.Hours > 0 {
		filter.Since = time.Now().Add(-min(time.Duration(in.Hours), 100*365*24) * time.Hour)
	}
	report, err := c.Service.Records.Cost(ctx, filter)
	if err != nil {
		return out, err
	}
	for _, sum := range report.Sums {
		out.Sums = append(out.Sums, costSum{sum.Key, sum.Name, sum.Amount, sum.Currency, sum.Time.Hours()})
	}
	maps.Copy(out.Totals, report.Totals)
	out.Unpriced, out.Failures = report.Unpriced, failuresOf(report.Failures)
	return out, nil
}
