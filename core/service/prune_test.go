package service

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

func TestPrune(t *testing.T) {
	now := time.Now()
	s, one, _ := service(t, Options{Now: func() time.Time { return now }})
	hourAgo := now.Add(-time.Hour)
	gone := core.CurrentOwner("test")
	gone.BootID = "another boot"
	one.boxes = []core.Sandbox{
		{ID: "one-0", Provider: "one", State: core.StateRunning},
		{
			ID: "one-1", Provider: "one", State: core.StateRunning, Lease: core.Lease{Expires: hourAgo},
			Expires: now.Add(time.Hour),
		},
		// renewed without a limit
		{ID: "one-2", Provider: "one", State: core.StateRunning, Lease: core.Lease{Expires: hourAgo}},
		{ID: "one-3", Provider: "one", State: core.StateRunning, Expires: hourAgo},
		{ID: "one-4", Provider: "one", State: core.StateCreating, Lease: core.Lease{Expires: hourAgo}},
		{ID: "one-5", Provider: "one", State: core.StateRunning, Lease: core.Lease{Bound: true, Owner: gone}},
		{ID: "one-6", Provider: "one", State: core.StateStopped, Expires: hourAgo},
		{ID: "one-7", Provider: "one", State: core.StateFailed, Ended: now.Add(-time.Minute)},
		{ID: "one-8", Provider: "one", State: core.StateLost, Created: hourAgo, LastActive: now.Add(-time.Minute)},
		{ID: "one-9", Provider: "one", State: core.StateExited, Ended: hourAgo},
		// Persistent sandboxes have files that the user may want.
		{ID: "one-a", Provider: "one", State: core.StatePaused, Expires: hourAgo, Spec: core.Spec{Persist: true}},
		{
			ID: "one-b", Provider: "one", State: core.StateStopped, Reason: core.ReasonTimeout, Expires: hourAgo,
			Spec: core.Spec{Persist: true},
		},
	}
	for _, test := range []struct {
		olderThan time.Duration
		want      []string
	}{
		{30 * time.Minute, []string{"one-3", "one-4", "one-5", "one-9"}},
		{0, []string{"one-3", "one-4", "one-5", "one-7", "one-8", "one-9"}},
	} {
		report, err := s.Prune(t.Context(), PruneOptions{DryRun: true, OlderThan: test.olderThan})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, sb := range report.Sandboxes {
			got = append(got, sb.ID)
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("older than %s: got %v, want %v", test.olderThan, got, test.want)
		}
	}
}

func TestNameLikeAnIDIsRefused(t *testing.T) {
	s, _, _ := service(t, Options{})
	for _, name := range []string{"one-0", "two-x"} {
		if _, err := s.Sandboxes.Launch(t.Context(), core.Spec{Name: name}, LaunchOptions{}); !errors.Is(
			err, core.KindUsage,
		) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAuditGoesOnBehindACutLine(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, auditFile), []byte(`{"op":"cut sho`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, _ := service(t, Options{StateDir: dir})
	if _, err := s.Sandboxes.Launch(t.Context(), core.Spec{Name: "after"}, LaunchOptions{}); err != nil {
		t.Fatal(err)
	}
	var names []string
	damaged := 0
	for record, err := range s.Records.History(t.Context(), HistoryFilter{}) {
		if _, ok := errors.AsType[*AuditDamage](err); ok {
			damaged++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, record.Name)
	}
	if damaged != 1 || !slices.Equal(names, []string{"after"}) {
		t.Errorf("the history is of %q", names)
	}
}
