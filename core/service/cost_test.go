package service_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/price"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
	"github.com/seed-0724f904/sb/core/service"
)

// clock is a time that a test controls.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// priced returns a service over one provider with prices: 3.60 an hour for an H100, 0.36 for a core, and nothing for an
// empty spec.
func priced(t *testing.T) (*service.Service, *fake.Provider, *clock) {
	t.Helper()
	c := &clock{now: time.Date(2026, 1, 2, 23, 0, 0, 0, time.UTC)}
	p := fake.New(fake.Options{
		Name: "cloud", Now: c.Now, Also: []core.Capability{core.CapGPU, core.CapCPU},
		GPUs: map[string]int{"H100": 8, "NEW": 1},
	})
	prices := map[string]price.Table{
		"cloud": {Currency: "USD", Date: "2026-01-01", CPU: 0.0001, GPU: map[string]float64{"H100": 0.001}},
	}
	s := service.New(service.Options{
		Factories: []core.Factory{p.Factory()}, StateDir: t.TempDir(), Now: c.Now, Prices: prices,
	})
	t.Cleanup(func() {
		_ = s.Close()
		p.Shutdown()
	})
	return s, p, c
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func TestMaxCost(t *testing.T) {
	s, _, c := priced(t)
	gpu := core.GPU{Type: "H100", Count: 1}
	sb, err := s.Sandboxes.Launch(t.Context(), core.Spec{Name: "dev", GPU: gpu, MaxCost: 3.6}, service.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if left := sb.Expires.Sub(c.Now()); left != time.Hour {
		t.Errorf("3.60 last %s, want an hour", left)
	}
	_, err = s.Sandboxes.Launch(
		t.Context(), core.Spec{Name: "long", GPU: gpu, MaxCost: 3.6, Timeout: core.Duration(2 * time.Hour)},
		service.LaunchOptions{},
	)
	wantKind(t, err, core.KindExhausted)
	if sb, err = s.Sandboxes.Launch(
		t.Context(), core.Spec{Name: "fits", GPU: gpu, MaxCost: 3.6, Timeout: core.Duration(time.Minute)},
		service.LaunchOptions{},
	); err != nil || sb.Expires.Sub(c.Now()) != time.Minute {
		t.Errorf("one that fits ends in %s, %v", sb.Expires.Sub(c.Now()), err)
	}
	_, err = s.Sandboxes.Launch(
		t.Context(), core.Spec{Name: "new", GPU: core.GPU{Type: "NEW", Count: 1}, MaxCost: 3.6}, service.LaunchOptions{},
	)
	wantKind(t, err, core.KindUnsupported)
	_, err = s.Sandboxes.Launch(t.Context(), core.Spec{Name: "dear", GPU: gpu, MaxCost: 0.0001}, service.LaunchOptions{})
	wantKind(t, err, core.KindExhausted)
	_, err = s.Sandboxes.Launch(t.Context(), core.Spec{Name: "odd", MaxCost: -1}, service.LaunchOptions{})
	wantKind(t, err, core.KindUsage)

	// After half an hour, the budget is enough for half an hour more.
	c.pass(30 * time.Minute)
	_, err = s.Sandboxes.SetTimeout(t.Context(), "dev", time.Hour)
	wantKind(t, err, core.KindExhausted)
	_, err = s.Sandboxes.SetTimeout(t.Context(), "dev", 0)
	wantKind(t, err, core.KindExhausted)
	if _, err = s.Sandboxes.SetTimeout(t.Context(), "dev", 29*time.Minute); err != nil {
		t.Error(err)
	}
}

// MaxCost bounds the highest possible cost: use up to the limits, times the region factor.
func TestMostRate(t *testing.T) {
	prices := price.Table{
		CPU: 1, Memory: 10, MinCPU: 0.125, MinMemory: core.GiB / 8, BurstCPU: 16, Region: 2.5,
		GPU: map[string]float64{"H100": 100},
	}
	for name, test := range map[string]struct {
		spec core.Spec
		want float64
	}{
		"limits as reserved": {core.Spec{CPU: 2, Memory: core.GiB}, 12},
		"higher limits": {
			core.Spec{CPU: 2, Memory: core.GiB, Modal: modalspec.Section{CPULimit: 8, MemoryLimit: 2 * core.GiB}.JSON()}, 28,
		},
		"no cpu": {core.Spec{Memory: core.GiB}, 26.125},
		"a region": {
			core.Spec{CPU: 2, Memory: core.GiB, Modal: modalspec.Section{Regions: []string{"us"}}.JSON()}, 30,
		},
		"a gpu in a region": {
			core.Spec{
				CPU: 2, Memory: core.GiB, GPU: core.GPU{Type: "H100", Count: 2},
				Modal: modalspec.Section{Regions: []string{"us"}}.JSON(),
			},
			530,
		},
	} {
		if got, err := prices.MostRate(test.spec); err != nil || !near(got, test.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, test.want)
		}
		if least, err := prices.Rate(test.spec); err != nil || least > test.want {
			t.Errorf("%s: at least %v, %v", name, least, err)
		}
	}
	_, err := prices.MostRate(core.Spec{CPU: 1})
	wantKind(t, err, core.KindUsage)
	prices.BurstCPU, prices.Region = 0, 0
	_, err = prices.MostRate(core.Spec{Memory: core.GiB})
	wantKind(t, err, core.KindUsage)
	_, err = prices.MostRate(core.Spec{CPU: 1, Memory: core.GiB, Modal: modalspec.Section{Regions: []string{"us"}}.JSON()})
	wantKind(t, err, core.KindUnsupported)
}

// A sandbox with a priced GPU and no lifetime gets one hour, and the user gets a notice.
func TestGPUEndsAfterAnHour(t *testing.T) {
	s, _, c := priced(t)
	gpu := core.GPU{Type: "H100", Count: 1}
	for name, test := range map[string]struct {
		spec   core.Spec
		want   time.Duration
		notice bool
	}{
		"a-gpu":    {core.Spec{GPU: gpu}, time.Hour, true},
		"asked":    {core.Spec{GPU: gpu, Timeout: core.Duration(5 * time.Hour)}, 5 * time.Hour, false},
		"bounded":  {core.Spec{GPU: gpu, MaxCost: 1.8}, 30 * time.Minute, true},
		"no-price": {core.Spec{CPU: 1, Timeout: core.Duration(3 * time.Hour)}, 3 * time.Hour, false},
	} {
		test.spec.Name = name
		notices := ""
		sb, err := s.Sandboxes.Launch(t.Context(), test.spec, service.LaunchOptions{Notice: func(text string) {
			notices += text
		}})
		if err != nil || sb.Expires.Sub(c.Now()) != test.want || (notices != "") != test.notice ||
			test.notice && !strings.Contains(notices, "ends after "+core.Duration(test.want).String()+";") {
			t.Errorf("%s ends in %s, %v; said %q", name, sb.Expires.Sub(c.Now()), err, notices)
		}
	}
}

func TestCost(t *testing.T) {
	s, p, c := priced(t)
	launch := func(spec core.Spec) core.Sandbox {
		t.Helper()
		sb, err := s.Sandboxes.Launch(t.Context(), spec, service.LaunchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return sb
	}
	gpu := core.GPU{Type: "H100", Count: 2}
	launch(core.Spec{Name: "train", App: "ml", GPU: gpu, Timeout: core.Duration(24 * time.Hour)})
	launch(core.Spec{Name: "web", App: "site", CPU: 2})
	launch(core.Spec{Name: "free", App: "site"})
	launch(core.Spec{Name: "new", App: "ml", GPU: core.GPU{Type: "NEW", Count: 1}, Timeout: core.Duration(24 * time.Hour)})
	gone := launch(core.Spec{Name: "gone", App: "ml", CPU: 1, Timeout: core.Duration(30 * time.Minute)})
	c.pass(2 * time.Hour)                                     // past midnight
	if err := p.Terminate(t.Context(), gone.ID); err != nil { // the log has no record of it
		t.Fatal(err)
	}
	if err := s.Sandboxes.Terminate(t.Context(), "train"); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)

	if sb, err := s.Sandboxes.Resolve(t.Context(), "web"); err != nil || sb.Cost == nil || !near(sb.Cost.Amount, 3*0.72) ||
		!near(sb.Cost.PerHour, 0.72) {
		t.Errorf("web has cost %+v, %v", sb.Cost, err)
	}
	report, err := s.Records.Cost(t.Context(), service.CostFilter{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"train": 2 * 7.2, "web": 3 * 0.72, "gone": 0.5 * 0.36, "free": 0}
	total := 0.0
	for _, sum := range report.Sums {
		if amount, known := want[sum.Name]; !known || !near(sum.Amount, amount) {
			t.Errorf("%s has cost %v, want %v", sum.Name, sum.Amount, amount)
		}
		total += want[sum.Name]
	}
	if len(report.Sums) != len(want) || report.Sums[0].Name != "train" || !near(report.Totals["USD"], total) ||
		len(report.Unpriced) != 1 {
		t.Errorf("%+v", report)
	}
	byDay, err := s.Records.Cost(t.Context(), service.CostFilter{By: service.CostByDay})
	if err != nil || len(byDay.Sums) != 2 || byDay.Sums[0].Key != "2026-01-02" ||
		!near(byDay.Sums[0].Amount, 7.2+0.72+0.18) || !near(byDay.Totals["USD"], total) {
		t.Errorf("by day: %+v, %v", byDay, err)
	}
	byApp, err := s.Records.Cost(t.Context(), service.CostFilter{By: service.CostByApp, App: "site", Since: c.Now().
		Add(-time.Hour)})
	if err != nil || len(byApp.Sums) != 1 || !near(byApp.Totals["USD"], 0.72) {
		t.Errorf("by app: %+v, %v", byApp, err)
	}
	_, err = s.Records.Cost(t.Context(), service.CostFilter{By: "week"})
	wantKind(t, err, core.KindUsage)
}

// The cost of a removed fork comes from the log, under its own name and with the spec of its source.
func TestCostOfAForkThatIsGone(t *testing.T) {
	s, _, c := priced(t)
	if _, err := s.Sandboxes.Launch(
		t.Context(), core.Spec{Name: "src", App: "ml", CPU: 1, Env: map[string]string{"A": "1"}}, service.LaunchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)
	fork, err := s.Sandboxes.Fork(t.Context(), "src", service.ForkOptions{Name: "copy"})
	if err != nil {
		t.Fatal(err)
	}
	c.pass(2 * time.Hour)
	if err := s.Sandboxes.Terminate(t.Context(), "copy"); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)
	report, err := s.Records.Cost(t.Context(), service.CostFilter{App: "ml"})
	if err != nil {
		t.Fatal(err)
	}
	amounts := map[string]float64{}
	for _, sum := range report.Sums {
		amounts[sum.Name+" "+sum.Key] = sum.Amount
	}
	if len(amounts) != 2 || !near(amounts["copy "+fork.ID], 2*0.36) {
		t.Errorf("two hours of a core cost %+v", report.Sums)
	}
}

// deciding is a provider that fills in the open fields of a launch, as a cloud does.
type deciding struct{ *fake.Provider }

func (d *deciding) Launch(
	ctx context.Context, spec core.Spec, lease core.Lease, progress core.ProgressFunc,
) (core.Sandbox, error) {
	spec.App, spec.Timeout = "own", core.Duration(time.Hour)
	return d.Provider.Launch(ctx, spec, lease, progress)
}

// After a sandbox is removed, its cost still uses the provider's choices and its own end.
func TestCostOfWhatIsGone(t *testing.T) {
	_, p, c := priced(t)
	s := service.New(service.Options{
		Factories: []core.Factory{{Name: "cloud", Open: func() (core.Provider, error) {
			return &deciding{p}, nil
		}}}, StateDir: t.TempDir(), Now: c.Now,
		Prices: map[string]price.Table{"cloud": {Currency: "USD", CPU: 0.0001}},
	})
	lost, err := s.Sandboxes.Launch(t.Context(), core.Spec{Name: "lost", CPU: 1}, service.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sandboxes.Launch(
		t.Context(), core.Spec{Name: "short", CPU: 1, Command: []string{"true"}}, service.LaunchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sandboxes.Wait(t.Context(), "short"); err != nil {
		t.Fatal(err)
	}
	c.pass(30 * time.Minute)
	// the log has no record of the first
	if err := errors.Join(p.Terminate(t.Context(), lost.ID), s.Sandboxes.Terminate(t.Context(), "short")); err != nil {
		t.Fatal(err)
	}
	c.pass(3 * time.Hour)
	report, err := s.Records.Cost(t.Context(), service.CostFilter{App: "own"})
	if err != nil || len(report.Sums) != 1 || report.Sums[0].Name != "lost" || !near(report.Totals["USD"], 0.36) {
		t.Errorf("an hour of a core costs %+v, %v", report, err)
	}
}

// waiting lists sandboxes by their name: "queued" waits for a machine, "late" got one after 30 minutes.
type waiting struct{ *fake.Provider }

func (w waiting) List(ctx context.Context) ([]core.Sandbox, error) {
	list, err := w.Provider.List(ctx)
	for i := range list {
		switch list[i].Name {
		case "queued":
			list[i].State, list[i].Started = core.StateQueued, time.Time{}
		case "late":
			list[i].Started = list[i].Created.Add(30 * time.Minute)
		}
	}
	return list, err
}

// The time that a sandbox waits for a machine costs nothing.
func TestQueueingCostsNothing(t *testing.T) {
	other, p, c := priced(t)
	for _, name := range []string{"queued", "late"} {
		if _, err := other.Sandboxes.Launch(t.Context(), core.Spec{Name: name, CPU: 1}, service.LaunchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.pass(time.Hour)
	s := service.New(service.Options{
		Factories: []core.Factory{{Name: "cloud", IDPrefix: p.Factory().IDPrefix, Open: func() (core.Provider, error) {
			return waiting{p}, nil
		}}},
		StateDir: t.TempDir(), Now: c.Now,
		Prices: map[string]price.Table{"cloud": {Currency: "USD", Date: "2026-01-01", CPU: 0.0001}},
	})
	t.Cleanup(func() { _ = s.Close() })
	report, err := s.Records.Cost(t.Context(), service.CostFilter{})
	if err != nil || len(report.Sums) != 1 || report.Sums[0].Name != "late" || !near(report.Totals["USD"], 0.18) {
		t.Errorf("%+v, %v", report, err)
	}
}
