package providertest

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// stats checks that the statistics are those of the sandbox, not of the shared machine.
func (s *suite) stats(t *testing.T) {
	p := s.provider(t)
	reader, ok := optional[core.StatsReader](t, p)
	if !ok {
		return
	}
	began := time.Now()
	sb := launch(t, p, nil)
	busy := begin(t, p, sb.ID, core.ExecSpec{Command: []string{"sh", "-c", "while :; do :; done"}})
	var stats core.Stats
	eventually(t, "a busy command is seen in the stats", func() bool {
		var err error
		if stats, err = reader.Stats(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		return stats.CPU >= 100*time.Millisecond
	})
	if most := time.Since(began) * time.Duration(runtime.NumCPU()); stats.CPU > most {
		t.Errorf("%s of processor time were used; there were %s at most", stats.CPU, most)
	}
	if stats.Memory <= 0 || stats.Memory > 256*core.MiB || stats.Processes < 1 || stats.Processes > mostThreads {
		t.Errorf("one small command uses %+v", stats)
	}
	if err := busy.Signal(t.Context(), int(syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	wait(t, busy)
	if after, err := reader.Stats(t.Context(), sb.ID); err != nil || after.CPU < stats.CPU {
		t.Errorf("when the command has ended: %+v, %v; before it %+v", after, err, stats)
	}
	if p.Capabilities().Can(core.CapMemory) && stats.MemoryLimit != 512*core.MiB {
		t.Errorf("the limit of memory is %s", stats.MemoryLimit)
	}
}

// mostThreads exceeds the processes of one small command where an engine counts threads, and those of the call. It is
// less than the number on any machine.
const mostThreads = 40
