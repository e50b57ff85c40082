//go:build linux

package box

import (
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

func TestProcessesAreRead(t *testing.T) {
	const rest = ` S 1 7 7 0 -1 4194560 100 0 0 0 150 50 200 100 20 0 1 0 99 1000 200`
	for stat, want := range map[string][2]time.Duration{
		"7 (sh)" + rest:               {2 * time.Second, 3 * time.Second},
		"7 (x) S 1 2 3 4 5 6)" + rest: {2 * time.Second, 3 * time.Second},
		"7 (sh) S 1":                  {},
		"":                            {},
	} {
		if own, children := cpuTimes([]byte(stat)); own != want[0] || children != want[1] {
			t.Errorf("%q: %s, %s", stat, own, children)
		}
	}
	if got := memoryOf(
		[]byte("Name:\tRssAnon: 5\nVmRSS:\t 99 kB\nRssAnon:\t 12 kB\nRssFile:\t 70 kB\nRssShmem:\t 3 kB\nRssAnon:\n"),
	); got != 15*core.KiB {
		t.Errorf("memory is %s", got)
	}
}

func TestIsCall(t *testing.T) {
	for _, c := range []struct {
		stat, status string
		want         bool
	}{
		{"7 (sb-guest) S 0 7 7", "Name:\tsb-guest\nUid:\t65533\t65533\t65533\t65533\nGid:\t1\n", true},
		{"7 (sh) S 0 7 7", "Uid:\t0\t0\t0\t0\n", false}, // the engine's own exec
		{"7 (sh) S 1 7 7", "Uid:\t65533\t65533\t65533\t65533\n", false},
		{"7 (a) S 0 b) S 1 7", "Uid:\t65533\n", false},
		{"7 (sh) S 0", "Uid:\n", false},
		{"", "", false},
	} {
		if got := isCall([]byte(c.stat), []byte(c.status)); got != c.want {
			t.Errorf("%q, %q: %v", c.stat, c.status, got)
		}
	}
}

func FuzzProcesses(f *testing.F) {
	f.Add([]byte("7 (a b) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 200 100 20"), []byte("RssAnon:\t 12 kB\n"))
	f.Fuzz(func(_ *testing.T, stat, status []byte) {
		cpuTimes(stat)
		memoryOf(status)
		isCall(stat, status)
	})
}
