package service

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// At a shared provider, operations on all sandboxes affect only this owner's: not those of another state directory, and
// not those without an owner.
func TestAllAffectsOnlyOwnSandboxes(t *testing.T) {
	home := t.TempDir()
	s, one, two := service(t, Options{StateDir: home, Quotas: Quotas{MaxSandboxes: 3}})
	one.caps.Shared = true
	for _, provider := range []string{"one", "two"} {
		if _, err := s.Sandboxes.Launch(
			t.Context(), core.Spec{Provider: provider, Name: "mine"}, LaunchOptions{},
		); err != nil {
			t.Fatal(err)
		}
	}
	stranger, other, _ := service(t, Options{StateDir: t.TempDir()})
	other.boxes, other.caps = nil, one.caps
	if _, err := stranger.Sandboxes.Launch(
		t.Context(), core.Spec{Provider: "one", Name: "theirs"}, LaunchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	theirs := other.boxes[0]
	theirs.ID = "one-7"
	hourAgo := time.Now().Add(-time.Hour)
	one.boxes = append(one.boxes, theirs, core.Sandbox{ID: "one-8", Provider: "one", State: core.StateRunning},
		core.Sandbox{ID: "one-9", Provider: "one", State: core.StateExited, Ended: hourAgo, Lease: theirs.Lease})
	two.boxes = append(two.boxes, core.Sandbox{ID: "two-9", Provider: "two", State: core.StateExited, Ended: hourAgo})

	again := New(Options{StateDir: home, Factories: []core.Factory{one.factory("one-"), two.factory("two-")}})
	for _, view := range []*Service{s, s.Within(Scope{Actor: "mcp/1"}), again} {
		listing, err := view.Sandboxes.List(t.Context(), core.ListFilter{})
		if err != nil {
			t.Fatal(err)
		}
		mine, others, err := view.Sandboxes.Mine(listing.Sandboxes)
		if err != nil || len(mine) != 2 || mine[0].Name != "mine" || mine[1].Name != "mine" || len(others) != 2 {
			t.Errorf("mine: %+v, others: %+v, %v", mine, others, err)
		}
	}
	// Sandboxes of other owners do not count toward the quota.
	if _, err := s.Sandboxes.Launch(t.Context(), core.Spec{Name: "third"}, LaunchOptions{}); err != nil {
		t.Error(err)
	}
	report, err := s.Prune(t.Context(), PruneOptions{DryRun: true})
	if err != nil || len(report.Sandboxes) != 1 || report.Sandboxes[0].ID != "two-9" || report.Others != 1 {
		t.Errorf("pruned: %+v, %v", report, err)
	}
	report, err = s.Prune(t.Context(), PruneOptions{DryRun: true, AllOwners: true})
	if err != nil || len(report.Sandboxes) != 2 || report.Others != 0 {
		t.Errorf("pruned for all owners: %+v, %v", report, err)
	}
}

func TestOwnerIDIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	ids := make([]string, 16)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			id, err := (&identity{dir: dir}).get()
			if err != nil {
				t.Error(err)
			}
			ids[i] = id
		})
	}
	all.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Fatalf("several ids: %q", ids)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := os.WriteFile(filepath.Join(dir, ownerFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&identity{dir: dir}).get(); !errors.Is(err, core.KindUnavailable) || core.HintOf(err) == "" {
		t.Errorf("a damaged file: %v", err)
	}
}
