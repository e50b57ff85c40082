//go:build linux

package local

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// Files that come and go with a sandbox are never taken for leftovers, and a sweep does not block their owner.
func TestNoLeftoversDuringLaunches(t *testing.T) {
	p, ok := opener(t, nil)(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	const kept, brief = "loc-keptkept", "loc-briefbri"
	lock, err := p.store.Create(kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.WriteLease(p.store.Dir(kept), leaseOf(kept)), lock.Close()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	over := make(chan struct{})
	defer close(over)
	repeat := func(do func() error) {
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := do(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	// As a supervisor: its files are gone before its lock is.
	repeat(func() error {
		lock, err := p.store.Lock(kept)
		if err != nil {
			return err
		}
		return errors.Join(os.MkdirAll(p.store.RuntimeDir(kept), 0o700), os.RemoveAll(p.store.RuntimeDir(kept)), lock.Close())
	})
	// As a launch that is broken off, and a terminate.
	repeat(func() error {
		lock, err := p.store.Create(brief)
		if err != nil {
			return err
		}
		return errors.Join(os.MkdirAll(p.overlayDir(brief), 0o700), store.WriteLease(p.store.Dir(brief), leaseOf(brief)),
			p.store.Reserve("brief", brief, func(string) bool {
				return true
			}), p.forget(t.Context(), brief, "brief"), lock.Close())
	})
	for range 2000 {
		if leftovers, err := p.Leftovers(t.Context()); err != nil || len(leftovers) != 0 {
			t.Fatalf("left over: %+v, %v", leftovers, err)
		}
	}
}
