package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
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
	prices := map[string]core.Prices{"fake": {Currency: "USD", CPU: 1, MinCPU: 1}}
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
