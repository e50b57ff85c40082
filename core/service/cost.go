package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/price"
)

// CostBy is the grouping of a cost report.
type CostBy string

// The groupings.
const (
	CostBySandbox CostBy = "sandbox"
	CostByApp     CostBy = "app"
	// CostByDay sums by days of UTC.
	CostByDay CostBy = "day"
)

// CostFilter selects the sandboxes to sum; zero fields select all, grouped by sandbox.
type CostFilter struct {
	By       CostBy
	Provider string
	App      string
	// Since excludes earlier charges.
	Since time.Time
}

// CostSum is one line of a CostReport.
type CostSum struct {
	// Key is a sandbox's id, an app's name, or a day: "2026-01-02".
	Key string `json:"key"`
	// Name belongs to a sandbox.
	Name string `json:"name,omitempty"`
	// Provider is empty for days.
	Provider string `json:"provider,omitempty"`
	// Sandboxes counts the sandboxes in the sum.
	Sandboxes int `json:"sandboxes"`
	// Time is their total running time.
	Time     time.Duration `json:"time_ns"`
	Amount   float64       `json:"amount"`
	Currency string        `json:"currency"`
}

// CostReport has the lowest possible cost of sandboxes. Use beyond their reservations is unknown.
type CostReport struct {
	Sums []CostSum `json:"sums"`
	// Totals has one sum for each currency.
	Totals map[string]float64 `json:"totals"`
	// Prices are the prices used, by provider.
	Prices map[string]price.Table `json:"prices"`
	// Unpriced names the sandboxes with a GPU without a price.
	Unpriced []string               `json:"unpriced,omitempty"`
	Failures []core.ProviderFailure `json:"failures,omitempty"`
	// Warnings name the unreadable parts of the audit log.
	Warnings []string `json:"warnings,omitempty"`
}

// stay is a period for which a sandbox was charged.
type stay struct {
	id, name, provider, app string
	spec                    core.Spec
	begin, end              time.Time
}

// Cost sums the cost of sandboxes at providers with prices. It reads the audit log, and lists the providers' sandboxes
// that the log does not cover completely. A sandbox in neither counts until the end of its lifetime.
func (s Records) Cost(ctx context.Context, filter CostFilter) (CostReport, error) {
	report := CostReport{Sums: []CostSum{}, Totals: map[string]float64{}, Prices: map[string]price.Table{}}
	filter.By = cmp.Or(filter.By, CostBySandbox)
	if filter.By != CostBySandbox && filter.By != CostByApp && filter.By != CostByDay {
		return report, core.Invalid("by", "%q is not one of sandbox, app and day", filter.By)
	}
	stays, err := s.recordedStays(ctx, &report)
	if err != nil {
		return report, err
	}
	listing, err := s.listAll(ctx, core.ListFilter{Provider: filter.Provider, All: true}, providerTimeout)
	if err != nil {
		return report, err
	}
	report.Failures = slices.DeleteFunc(listing.Failures, func(f core.ProviderFailure) bool {
		_, priced := s.prices[f.Provider]
		return !priced && filter.Provider == ""
	})
	for _, sb := range listing.Sandboxes {
		if sb.State == core.StateQueued {
			delete(stays, sb.ID)
			continue
		}
		known := stays[sb.ID]
		if known == nil {
			known = &stay{begin: charged(sb)}
			stays[sb.ID] = known
		}
		known.id, known.name, known.provider, known.app, known.spec = sb.ID, sb.Name, sb.Provider, sb.App, sb.Spec
		known.end = sb.Ended
		if sb.State.Live() || known.end.IsZero() {
			known.end = s.now()
		}
	}
	sums := map[string]*CostSum{}
	for _, id := range slices.Sorted(maps.Keys(stays)) {
		s.charge(*stays[id], filter, &report, sums)
	}
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		report.Sums = append(report.Sums, *sums[key])
	}
	if filter.By != CostByDay {
		slices.SortStableFunc(report.Sums, func(a, b CostSum) int { return cmp.Compare(b.Amount, a.Amount) })
	}
	return report, nil
}

// recordedStays reads the audit log. Under a scope it returns none, because records do not name the owner.
func (s *base) recordedStays(ctx context.Context, report *CostReport) (map[string]*stay, error) {
	stays := map[string]*stay{}
	if len(s.scope.Labels) > 0 {
		return stays, nil
	}
	for record, err := range (Records{s}).History(ctx, HistoryFilter{}) {
		if damage, ok := errors.AsType[*AuditDamage](err); ok {
			report.Warnings = append(report.Warnings, damage.Error())
			continue
		}
		if err != nil {
			return nil, err
		}
		if record.Result != "ok" || record.Sandbox == "" {
			continue
		}
		at := record.Time.Add(record.Duration)
		known := stays[record.Sandbox]
		switch record.Op {
		case "launch":
			s.noteStay(stays, record.Sandbox, record.Name, at, record)
		case "fork":
			s.noteStay(stays, textOf(record.Args["fork"]), textOf(record.Args["name"]), at, record)
		case "timeout":
			if known != nil {
				known.end = s.now()
				if timeout, err := core.ParseDuration(textOf(record.Args["timeout"])); err == nil && timeout > 0 {
					known.end = earlier(known.end, at.Add(time.Duration(timeout)))
				}
			}
		case "terminate":
			if ended, err := time.Parse(time.RFC3339Nano, textOf(record.Args["ended"])); err == nil {
				at = earlier(at, ended) // its lifetime ended before that
			}
			if known != nil {
				known.end = earlier(known.end, at)
			}
		}
	}
	return stays, nil
}

// noteStay notes that a sandbox was made, with the spec in the record.
func (s *base) noteStay(stays map[string]*stay, id, name string, at time.Time, record AuditRecord) {
	spec, ok := recordedSpec(record)
	if !ok || id == "" {
		return
	}
	made := &stay{id: id, name: name, provider: record.Provider, app: spec.App, spec: spec, begin: at, end: s.now()}
	if spec.Timeout > 0 {
		made.end = earlier(made.end, at.Add(time.Duration(spec.Timeout)))
	}
	stays[id] = made
}

func textOf(value any) string {
	text, _ := value.(string)
	return text
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// recordedSpec decodes the spec in a record. It returns false if there is none.
func recordedSpec(record AuditRecord) (spec core.Spec, ok bool) {
	if record.Args["spec"] == nil {
		return spec, false
	}
	text, err := json.Marshal(record.Args["spec"])
	if err != nil {
		return spec, false
	}
	return spec, json.Unmarshal(text, &spec) == nil
}

// charge adds the cost of a stay to the sums.
func (s *base) charge(t stay, filter CostFilter, report *CostReport, sums map[string]*CostSum) {
	prices, priced := s.prices[t.provider]
	if !priced || filter.Provider != "" && t.provider != filter.Provider || filter.App != "" && t.app != filter.App {
		return
	}
	if t.begin.Before(filter.Since) {
		t.begin = filter.Since
	}
	if !t.end.After(t.begin) {
		return
	}
	rate, err := prices.Rate(t.spec)
	if err != nil {
		report.Unpriced = append(report.Unpriced, t.name)
		return
	}
	report.Prices[t.provider] = prices
	add := func(key, name, provider string, length time.Duration) {
		sum := sums[key+" "+provider+" "+prices.Currency]
		if sum == nil {
			sum = &CostSum{Key: key, Name: name, Provider: provider, Currency: prices.Currency}
			sums[key+" "+provider+" "+prices.Currency] = sum
		}
		sum.Sandboxes++
		sum.Time += length
		sum.Amount += rate * length.Seconds()
		report.Totals[prices.Currency] += rate * length.Seconds()
	}
	switch filter.By {
	case CostByApp:
		add(t.app, "", t.provider, t.end.Sub(t.begin))
	case CostByDay:
		for begin := t.begin.UTC(); begin.Before(t.end); {
			midnight := time.Date(begin.Year(), begin.Month(), begin.Day()+1, 0, 0, 0, 0, time.UTC)
			add(begin.Format(time.DateOnly), "", "", earlier(midnight, t.end).Sub(begin))
			begin = midnight
		}
	case CostBySandbox:
		add(t.id, t.name, t.provider, t.end.Sub(t.begin))
	}
}
