package commands

import (
	"testing"
	"time"

	"github.com/seed-0724f904/sb/commands/watch"
	"github.com/seed-0724f904/sb/core"
)

// CPU is a rate between two looks, not the mean of the sandbox's life.
func TestCPUIsARate(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	before := core.Stats{Time: at, CPU: time.Hour}
	for name, test := range map[string]struct {
		now  core.Stats
		want string
	}{
		"idle":          {core.Stats{Time: at.Add(time.Second), CPU: time.Hour}, "0.0%"},
		"half a core":   {core.Stats{Time: at.Add(2 * time.Second), CPU: time.Hour + time.Second}, "50.0%"},
		"two cores":     {core.Stats{Time: at.Add(time.Second), CPU: time.Hour + 2*time.Second}, "200.0%"},
		"started again": {core.Stats{Time: at.Add(time.Second), CPU: time.Second}, ""},
		"at once":       {core.Stats{Time: at, CPU: time.Hour}, ""},
	} {
		if got := watch.PercentText(watch.CPUPercent(before, test.now)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	before.Frozen = true
	now := core.Stats{Time: at.Add(time.Second), CPU: time.Hour + 100*time.Millisecond, Frozen: true}
	if got := watch.PercentText(watch.CPUPercent(before, now)); got != "0.0%" {
		t.Errorf("frozen: %q", got)
	}
}
