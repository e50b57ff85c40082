//go:build linux

package local

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// One of several concurrent terminates succeeds. The others return KindNotFound, and nothing is left.
func TestTerminateAtOnce(t *testing.T) {
	p, ok := opener(t, nil)(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	const id = "loc-oncemore"
	for range 200 {
		lock, err := p.store.Create(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(store.WriteLease(p.store.Dir(id), leaseOf(id)), lock.Close()); err != nil {
			t.Fatal(err)
		}
		failed := make([]error, 4)
		var all sync.WaitGroup
		for i := range failed {
			all.Go(func() { failed[i] = p.Terminate(t.Context(), id) })
		}
		all.Wait()
		ended := 0
		for _, err := range failed {
			switch {
			case err == nil:
				ended++
			case !errors.Is(err, core.KindNotFound):
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(p.store.Dir(id)); ended != 1 || !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%d of %d ended it, and then: %v", ended, len(failed), err)
		}
	}
}
