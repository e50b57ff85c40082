package docker

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providertest"
)

// TestCommandEndsBeforeInput sends input that the sandbox no longer reads. The result of the call must
// still arrive: Podman loses the rest of the output when input is left over.
func TestCommandEndsBeforeInput(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, func(o *Options) { o.EngineOnly = true })
		sb := box(t, p, nil)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 4 {
					for _, size := range []int{1, 4 << 20} {
						err := p.WriteFile(t.Context(), sb.ID, "/tmp", strings.NewReader(strings.Repeat("x", size)), core.WriteOptions{})
						if !errors.Is(err, core.KindConflict) {
							t.Errorf("writing %d bytes to a directory: %v", size, err)
						}
					}
					process, err := p.Exec(
						t.Context(), sb.ID,
						core.ExecSpec{Command: []string{"true"}, Stdin: bytes.NewReader(make([]byte, wire.StdinWindow))},
					)
					if err != nil {
						t.Error(err)
						return
					}
					if exit, err := process.Wait(providertest.Patient(t)); err != nil || exit.Code != 0 {
						t.Errorf("a command that reads nothing: %+v, %v", exit, err)
					}
					_ = process.Close()
				}
			})
		}
		wg.Wait()
	})
}
