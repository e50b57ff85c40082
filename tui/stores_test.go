package tui

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/tui/theme"
)

// keeperRig drives a dashboard over a provider with stores.
func keeperRig(t *testing.T) (*rig, *service.Service) {
	t.Helper()
	keeper := fake.NewKeeper(fake.Options{}, fake.KeeperOptions{})
	t.Cleanup(keeper.Shutdown)
	svc := service.New(service.Options{Factories: []core.Factory{keeper.Factory()}})
	t.Cleanup(func() { _ = svc.Close() })
	return newRig(t, Options{Service: svc}), svc
}

// Stored items are listed, created and removed. A secret's value never appears.
func TestStores(t *testing.T) {
	r, svc := keeperRig(t)
	if _, err := svc.Stores.CreateVolume(t.Context(), "", "data", core.VolumeOptions{}); err != nil {
		t.Fatal(err)
	}
	values := map[string]core.SecretValue{"API_KEY": core.NewSecretValue("hunter2")}
	if _, err := svc.Stores.CreateSecret(t.Context(), "", "keys", values, core.SecretOptions{}); err != nil {
		t.Fatal(err)
	}
	launch(t, svc, core.Spec{Name: "web", App: "shop"})
	r.until("web is there", r.hasRow("web"))
	r.press("V")
	r.shows("data")
	r.press("n")
	r.types("more")
	r.press("enter")
	r.shows("volume more is created on fake")
	r.until("it is in the store", func() bool { return len(r.m.dialogs[0].(*storeDialog).found.Items) == 2 })
	r.press("end", "D")
	r.shows("Remove volume more?")
	r.press("enter") // the harmless choice
	r.hides("Remove volume more?")
	r.press("D", "y")
	r.shows("volume more is removed")
	found, err := svc.Stores.Volumes(t.Context(), "")
	if err != nil || len(found.Items) != 1 || found.Items[0].Name != "data" {
		t.Errorf("%+v, %v", found.Items, err)
	}

	r.press("right")
	r.shows("API_KEY")
	if strings.Contains(r.text(), "hunter2") {
		t.Error("a secret's value is on the screen")
	}
	for _, title := range []string{"Images", "Snapshots", "Checkpoints", "Apps"} {
		r.press("right")
		d := r.m.dialogs[0].(*storeDialog)
		if d.store().title != title {
			t.Fatalf("store %s, want %s", d.store().title, title)
		}
		r.until(title+" are there", func() bool { return d.loaded && d.err == nil })
	}
	r.shows("shop")
	r.press("D", "y")
	r.shows("app shop is stopped")
	r.until("web is gone", func() bool { return !r.hasRow("web")() })
	r.press("esc")
	if len(r.m.dialogs) != 0 {
		t.Error("the dialog is still open")
	}
}

// The failure of one provider is shown next to the items of the others.
func TestStoreOfAFailingProvider(t *testing.T) {
	d := &storeDialog{stores: stores(), now: time.Now}
	d.update(storeMsg{store: "volume", items: service.Inventory[storedItem]{
		Items:    []storedItem{{name: "data", provider: "docker"}},
		Failures: []core.ProviderFailure{{Provider: "modal", Error: "no token"}},
	}})
	text := strings.Join(d.view(theme.New(theme.Plain), 80, 24), "\n")
	if !strings.Contains(text, "data") || !strings.Contains(text, "modal: no token") {
		t.Error(text)
	}
	d.update(storeMsg{store: "secret", items: service.Inventory[storedItem]{}}) // late: for another store
	if len(d.found.Items) != 1 {
		t.Error("a late answer for another store was used")
	}
}

func TestForkAndCheckpoint(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	launch(t, svc, core.Spec{Name: "dev", Command: []string{"sleep", "1000"}})
	r := newRig(t, Options{Service: svc})
	r.until("dev is there", r.hasRow("dev"))
	r.press("F")
	r.shows("sb fork dev")
	r.types("copy")
	r.press("enter")
	r.until("the fork is there and selected", r.selects("copy"))
	r.press("H")
	r.types("warm")
	r.press("enter")
	r.shows("checkpoint warm of copy is created")
	listing, err := svc.Stores.Checkpoints(t.Context(), "")
	if err != nil || len(listing.Items) != 1 || listing.Items[0].Of != "copy" {
		t.Errorf("%+v, %v", listing, err)
	}
}

// Denied connections cause one notice per target, and the Network tab lists all of them.
func TestDeniedConnections(t *testing.T) {
	provider := fake.New(fake.Options{})
	svc := newService(t, provider)
	box := launch(t, svc, core.Spec{Name: "dev"})
	r := newRig(t, Options{Service: svc})
	r.until("dev is there", r.hasRow("dev"))
	r.press("4")
	r.shows("no denied connections")
	denyIn := func(id, name string, count int) {
		t.Helper()
		denial := core.Denial{Time: time.Now(), Protocol: "tcp", Name: name, Port: 443, Count: count}
		if err := provider.Deny(id, denial); err != nil {
			t.Fatal(err)
		}
	}
	deny := func(name string, count int) {
		t.Helper()
		denyIn(box.ID, name, count)
	}
	// A denial before the dashboard watches causes no notice.
	other := launch(t, svc, core.Spec{Name: "other"})
	r.until("the dashboard watches", func() bool {
		denyIn(other.ID, "first.example", 1)
		return slices.ContainsFunc(r.m.notices.log, func(n notice) bool { return strings.Contains(n.text, "first.example") })
	})
	deny("evil.example", 3)
	r.shows("dev: connection denied to evil.example:443")
	r.shows("3×")
	deny("evil.example", 4)
	r.shows("4×")
	deny("\x1b]0;bad\x07other.example", 1)
	r.shows("other.example:443 (tcp)")
	count := 0
	for _, n := range r.m.notices.log {
		if strings.Contains(n.text, "evil.example") {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d notices, want 1", count)
	}
}

// A sandbox moves to another provider with its files.
func TestMove(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}), fake.New(fake.Options{Name: "other", IDPrefix: "oth-"}))
	box := launch(t, svc, core.Spec{Name: "dev", Provider: "fake", Workdir: "/srv"})
	content, options := strings.NewReader("kept"), core.WriteOptions{Parents: true}
	if err := svc.Files.WriteFile(t.Context(), box.ID, "/srv/file", content, options); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{Service: svc})
	r.until("dev is there", r.hasRow("dev"))
	r.press("M")
	r.shows("sb move dev --to other")
	r.press("enter")
	r.shows("dev is moved to other")
	r.until("it is the only one", func() bool {
		e := r.m.table.selected()
		return len(r.rowNames()) == 1 && e != nil && e.box.Provider == "other"
	})
	if _, err := svc.Files.Stat(t.Context(), r.m.table.selected().box.ID, "/srv/file"); err != nil {
		t.Error(err)
	}
}
