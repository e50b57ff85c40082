package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// sweepAll removes all leftovers.
func sweepAll(t *testing.T, p *Provider) {
	t.Helper()
	left, err := p.Leftovers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range left {
		if err := p.Sweep(t.Context(), l); err != nil {
			t.Errorf("%s: %v", l.Subject, err)
		}
	}
}

// ownHelper returns a build of sb-guest that no other test uses, and the name of its volume. The end of the test
// removes the volume.
func (e testEngine) ownHelper(t *testing.T) (file, volume string) {
	t.Helper()
	program, err := os.ReadFile(guestProgram())
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "sb-guest")
	// No system reads the bytes after a program's sections.
	if err := os.WriteFile(file, append(program, rand.Text()...), 0o755); err != nil {
		t.Fatal(err)
	}
	p := e.open(t, func(o *Options) { o.Guest = file })
	h, err := p.helper(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Sweep(
			context.WithoutCancel(t.Context()), core.Leftover{Provider: Name, Subject: h.volume},
		); err != nil || e.hasVolume(t, h.volume) {
			t.Errorf("the helper stays: %v", err)
		}
	})
	return file, h.volume
}

// withOwnHelper opens a provider with its own helper.
func (e testEngine) withOwnHelper(t *testing.T) (*Provider, helper) {
	t.Helper()
	file, _ := e.ownHelper(t)
	p := e.open(t, func(o *Options) { o.Guest = file })
	h, err := p.helper(p.engine.Facts().Arch)
	if err != nil {
		t.Fatal(err)
	}
	return p, h
}

func (e testEngine) hasVolume(t *testing.T, name string) bool {
	t.Helper()
	_, err := e.raw(t).VolumeInspect(context.WithoutCancel(t.Context()), name, client.VolumeInspectOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// unused reports whether a volume is a leftover.
func unused(t *testing.T, p *Provider, volume string) bool {
	t.Helper()
	left, err := p.Leftovers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(left, func(l core.Leftover) bool { return l.Subject == volume })
}

// The first launch that needs the helper creates it, and all launches share it. It is a leftover once no sandbox uses
// it.
func TestHelperShared(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		file, volume := e.ownHelper(t)
		own := func(o *Options) { o.Guest = file }
		// Like three processes.
		providers := []*Provider{e.open(t, own), e.open(t, own), e.open(t, own)}
		var wg sync.WaitGroup
		for _, p := range providers {
			wg.Go(func() {
				sb := box(t, p, nil)
				if out, _ := sh(t, p, sb.ID, "echo runs"); out != "runs\n" {
					t.Errorf("it says %q", out)
				}
			})
		}
		wg.Wait()
		p := providers[0]
		sb := box(t, p, nil)
		for _, try := range []string{
			"echo x > bin/sb-guest", "rm -f bin/sb-guest", "mv bin/sb-guest x", "touch bin/x", "rmdir bin",
			"mv bin x", "mv $PWD /x", "mount -o remount,rw bin", "mount -t tmpfs none bin", "chmod 777 bin",
		} {
			if out, code := run(t, p, sb.ID, core.ExecSpec{Command: []string{"sh", "-c", try +
				" 2>&1"}, Workdir: string(p.known[sb.ID].dir)}); code == 0 {
				t.Errorf("%s worked: %s", try, out)
			}
		}
		named, err := p.Volumes(t.Context())
		if err != nil || slices.ContainsFunc(named, func(v core.VolumeInfo) bool { return v.Name == volume }) {
			t.Errorf("foreign volumes are %+v, %v", named, err)
		}
		for _, name := range []string{volume, helperPrefix + "next"} { // later versions, too: the first content is trusted
			_, err := p.Launch(
				t.Context(),
				core.Spec{Name: core.NewName(), Image: testImage, Volumes: []core.Volume{{Source: name, Target: "/v"}}},
				core.Lease{}, nil,
			)
			wantKind(t, err, core.KindUnauthorized)
			_, err = p.CreateVolume(t.Context(), name, core.VolumeOptions{})
			wantKind(t, err, core.KindUnauthorized)
		}
		wantKind(t, p.RemoveVolume(t.Context(), volume), core.KindNotFound)
		if unused(t, p, volume) {
			t.Error("while it is in use it is left over")
		}
		if err := p.Sweep(t.Context(), core.Leftover{Provider: Name, Subject: volume}); err != nil {
			t.Errorf("sweeping it: %v", err)
		}
		if !e.hasVolume(t, volume) {
			t.Error("under a sandbox it was removed")
		}
		last := box(t, p, nil)
		end(t, p, sb.ID)
		if unused(t, p, volume) {
			t.Error("with the last but one it is left over")
		}
		end(t, p, last.ID)
	})
}

// A prune of the engine's volumes between two steps of a launch does no lasting harm. Neither does an interrupted
// launch.
func TestHelperLost(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p, h := e.withOwnHelper(t)
		if _, err := e.raw(t).VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: h.volume}); err != nil {
			t.Fatal(err)
		}
		sb := box(t, p, nil)
		if out, _ := sh(t, p, sb.ID, "echo runs"); out != "runs\n" {
			t.Errorf("it says %q", out)
		}
		// Another process fills it again, under a running sandbox.
		if err := p.engine.fill(t.Context(), h, testImage); err != nil {
			t.Fatal(err)
		}
		if out, _ := sh(t, p, sb.ID, "echo runs"); out != "runs\n" {
			t.Errorf("then it says %q", out)
		}
		end(t, p, sb.ID)
		if !unused(t, p, h.volume) {
			t.Error("without sandboxes it is not left over")
		}
	})
}

// Another launch fills the volume after a container failed to start without the helper, and before the launch looks for
// the reason.
func TestHelperFilledMeanwhile(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		file, volume := e.ownHelper(t)
		other := e.open(t, func(o *Options) { o.Guest = file })
		h, err := other.helper(other.engine.Facts().Arch)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.raw(t).VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: volume}); err != nil {
			t.Fatal(err)
		}
		var failed, filled atomic.Bool
		slow := e.behind(t, func(_ http.ResponseWriter, r *http.Request) bool {
			switch path.Base(r.URL.Path) {
			case "start":
				failed.Store(true)
			case "json":
				if failed.Load() && filled.CompareAndSwap(false, true) {
					if err := other.engine.fill(t.Context(), h, testImage); err != nil {
						t.Error(err)
					}
				}
			}
			return false
		})
		p := slow.open(t, func(o *Options) { o.Guest = file })
		sb := box(t, p, nil)
		if out, _ := sh(t, p, sb.ID, "echo runs"); out != "runs\n" || !filled.Load() {
			t.Errorf("it says %q; filled is %t", out, filled.Load())
		}
	})
}

// Several processes may find the volume missing at the same time.
func TestHelperFilledAtOnce(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p, h := e.withOwnHelper(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := p.engine.fill(t.Context(), h, testImage); err != nil {
					t.Errorf("filling it: %v", err)
				}
			})
		}
		wg.Wait()
		sb := box(t, p, nil)
		if out, _ := sh(t, p, sb.ID, "echo runs"); out != "runs\n" {
			t.Errorf("it says %q", out)
		}
	})
}

// The container of a killed launch is a leftover. That of a launch in progress is not.
func TestHelperCanceled(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p, h := e.withOwnHelper(t)
		made, err := e.raw(t).ContainerCreate(t.Context(), h.filler(testImage, wire.NewDir()))
		if err != nil {
			t.Fatal(err)
		}
		found := func(age time.Duration) bool {
			broken, err := p.engine.brokenOff(t.Context(), age)
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(broken, func(c container.Summary) bool { return c.ID == made.ID })
		}
		if found(fillingAge) || !found(-fillingAge) {
			t.Error("it is found while it is young, or not when it is old")
		}
		all, err := p.List(t.Context())
		if err != nil || slices.ContainsFunc(all, func(sb core.Sandbox) bool { return sb.ID == idOf(made.ID) }) {
			t.Errorf("it is listed as a sandbox: %+v, %v", all, err)
		}
		if err := p.Sweep(t.Context(), core.Leftover{Provider: Name, Subject: fillingPrefix + made.ID}); err != nil {
			t.Error(err)
		}
		if found(-fillingAge) {
			t.Error("it is found after the sweep")
		}
	})
}

// A truncated archive has no file under the helper's name.
func TestHelperArchive(t *testing.T) {
	archive, err := helper{program: bytes.Repeat([]byte("x"), 4096)}.archive()
	if err != nil {
		t.Fatal(err)
	}
	program, link := bytes.Index(archive, []byte("xxxx")), bytes.LastIndex(archive, []byte("sb-guest\x00"))
	if first := strings.Index(string(archive), "sb-guest\x00"); first != link || program > link {
		t.Errorf("the program is at %d, its name at %d and %d", program, first, link)
	}
}

// The volume of a container that was removed by hand is a leftover. That of a new one may belong to a launch in
// progress.
func TestRemovedByHand(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, nil)
		c, err := e.raw(t).ContainerInspect(t.Context(), containerOf(sb.ID), client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(c.Container.Mounts, func(m container.MountPoint) bool {
			return m.Destination == string(p.known[sb.ID].dir)
		})
		volume := c.Container.Mounts[at].Name
		t.Cleanup(func() { _ = p.Sweep(context.WithoutCancel(t.Context()), core.Leftover{Subject: boxPrefix + volume}) })
		left := func(age time.Duration) bool {
			boxes, err := p.engine.unusedBoxes(t.Context(), age)
			if err != nil {
				t.Fatal(err)
			}
			return slices.Contains(boxes, volume)
		}
		if left(-time.Hour) {
			t.Error("it is left over while the sandbox runs")
		}
		if _, err := e.raw(t).ContainerRemove(
			t.Context(), containerOf(sb.ID), client.ContainerRemoveOptions{Force: true},
		); err != nil {
			t.Fatal(err)
		}
		if left(fillingAge) || left(-time.Hour) == p.engine.Podman {
			t.Errorf("young: %t, old: %t", left(fillingAge), left(-time.Hour))
		}
		if err := p.Sweep(t.Context(), core.Leftover{Subject: boxPrefix + volume}); err != nil || e.hasVolume(t, volume) {
			t.Errorf("after the sweep: %v", err)
		}
	})
}
