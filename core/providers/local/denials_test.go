//go:build linux

package local

import (
	"context"
	"sync"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
)

func TestDenials(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) { spec.Network.Mode = core.NetworkAll })
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan core.Event, 100)
	watching := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		close(watching)
		for event, err := range p.Watch(ctx) {
			if err == nil && event.Type == core.EventDenial {
				events <- event
			}
		}
	})
	providertest.Receive(t, watching)
	const connect = `import socket
for port in (80, 80, 81):
    try: socket.create_connection(("169.254.169.254", port), 5)
    except OSError as e: print(e)
`
	within(t, "the watcher gets it", func() bool {
		process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"python3", "-c", connect}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = process.Close() }()
		if _, err := process.Wait(providertest.Patient(t)); err != nil {
			t.Fatal(err)
		}
		select {
		case event := <-events:
			return event.Sandbox == sb.ID && event.Denial.Address == "169.254.169.254"
		default:
			return false
		}
	})
	denials, err := p.Denials(t.Context(), sb.ID)
	if err != nil || len(denials) != 2 || denials[0].Port != 81 || denials[1].Port != 80 ||
		denials[1].Count != 2*denials[0].Count ||
		denials[0].Protocol != "tcp" || denials[0].Why == "" {
		t.Errorf("%+v, %v", denials, err)
	}
	if stats, err := p.Stats(t.Context(), sb.ID); err != nil || stats.Denied != 3*denials[0].Count {
		t.Errorf("%+v, %v", stats, err)
	}
}
