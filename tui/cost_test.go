package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/price"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
)

// The cost column appears only when a sandbox has a cost, and the cost grows with the clock.
func TestCostColumn(t *testing.T) {
	free := newService(t, fake.New(fake.Options{}))
	launch(t, free, core.Spec{Name: "dev"})
	r := newRig(t, Options{Service: free})
	r.until("dev is there", r.hasRow("dev"))
	if strings.Contains(r.text(), "COST") {
		t.Error("there is a cost column without a cost")
	}

	provider := fake.New(fake.Options{})
	t.Cleanup(provider.Shutdown)
	prices := map[string]price.Table{"fake": {Currency: "USD", CPU: 1, MinCPU: 1}}
	priced := service.New(service.Options{Factories: []core.Factory{provider.Factory()}, Prices: prices})
	t.Cleanup(func() { _ = priced.Close() })
	launch(t, priced, core.Spec{Name: "dev"})
	r = newRig(t, Options{Service: priced})
	r.shows("COST")
	e := r.m.table.selected()
	if e.box.Cost.PerHour != 3600 {
		t.Fatalf("%+v", e.box.Cost)
	}
	listed := e.box.Cost.Amount
	if got := spent(e, e.from.listed.Add(time.Minute)).Amount; got < listed+59 || got > listed+61 {
		t.Errorf("%v a minute after %v", got, listed)
	}
}

// A launch whose lifetime the core shortens is a notice on the screen and in the log.
func TestLaunchHasTheCoresNotice(t *testing.T) {
	provider := fake.New(fake.Options{Also: []core.Capability{core.CapGPU}, GPUs: map[string]int{"H100": 8}})
	t.Cleanup(provider.Shutdown)
	prices := map[string]price.Table{"fake": {Currency: "USD", GPU: map[string]float64{"H100": 1}}}
	priced := service.New(service.Options{
		Factories: []core.Factory{provider.Factory()}, Prices: prices, StateDir: t.TempDir(),
	})
	t.Cleanup(func() { _ = priced.Close() })
	r := newRig(t, Options{Service: priced})
	r.press("L")
	r.shows("✓ runs on fake")
	r.types("train")
	form := r.m.dialogs[0].(*launchForm)
	for form.fields[form.at].id != "gpu" {
		r.press("down")
	}
	r.types("H100")
	r.press("enter")
	r.shows("train has a GPU, so it ends after 1h")
}
