//go:build linux

package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// Temporary files of a sandbox are never leftovers, and a sweep does not block their owner.
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
	// Like an interrupted launch and an interrupted terminate.
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
	for range 50 {
		if leftovers, err := p.Leftovers(t.Context()); err != nil || len(leftovers) != 0 {
			t.Fatalf("left over: %+v, %v", leftovers, err)
		}
	}
}

// TestImageLeftovers checks that an image without a name is left over once no sandbox uses it. A broken pull is at
// once.
func TestImageLeftovers(t *testing.T) {
	p := opened(t, opener(t, nil))
	file := filepath.Join(t.TempDir(), "busybox.tar")
	writeBusybox(t, file, nil)
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image = "docker-archive:" + file })
	writeBusybox(t, file, func(c *v1.Config) { c.Env = []string{"CHANGED=yes"} })
	if _, err := p.PullImage(t.Context(), "docker-archive:"+file, nil); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(p.store.ImagesDir(), "work", strings.Repeat("0", 64))
	if err := os.MkdirAll(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	sweepAll := func(want int) {
		t.Helper()
		left, err := p.Leftovers(t.Context())
		if err != nil || len(left) != want {
			t.Fatalf("left over: %+v, %v", left, err)
		}
		for _, l := range left {
			if err := p.Sweep(t.Context(), l); err != nil {
				t.Error(err)
			}
		}
	}
	sweepAll(1)
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	sweepAll(1)
	sweepAll(0)
	if list, err := p.Images(t.Context()); err != nil || len(list) != 1 || len(list[0].Names) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}
