//go:build linux

package modal_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providertest"
)

// While a sandbox with a GPU waits for a machine, other processes see it as queued. It has not started, so it costs
// nothing.
func TestQueued(t *testing.T) {
	r := newRig(t, nil)
	r.faults.SetScheduling(time.Hour)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	s := spec()
	s.GPU = core.GPU{Type: "T4", Count: 1}
	ctx, cancel := context.WithCancel(t.Context())
	launch := make(chan error, 1)
	go func() {
		_, err := p.Launch(ctx, s, lease(), nil)
		launch <- err
	}()
	defer cancel()
	var queued core.Sandbox
	eventually(t, func() bool {
		list, err := p.List(t.Context())
		i := slices.IndexFunc(list, func(sb core.Sandbox) bool { return sb.Name == s.Name })
		if err != nil || i < 0 {
			return false
		}
		queued = list[i]
		return true
	})
	got, err := p.Get(t.Context(), queued.ID)
	for _, sb := range []core.Sandbox{queued, got} {
		if err != nil || sb.State != core.StateQueued || !sb.Started.IsZero() {
			t.Errorf("%s is %s, started %s, %v", sb.ID, sb.State, sb.Started, err)
		}
	}
	if err := p.Terminate(t.Context(), queued.ID); err != nil {
		t.Error(err)
	}
	if err := providertest.Receive(t, launch); err == nil {
		t.Error("the launch of a sandbox that was terminated succeeded")
	}

	r.faults.SetScheduling(0)
	s.Name = core.NewName()
	id := launched(t, p, s).ID
	if got, err := p.Get(t.Context(), id); err != nil || got.State != core.StateRunning || got.Started.IsZero() {
		t.Errorf("with a machine it is %s, started %s, %v", got.State, got.Started, err)
	}
}
