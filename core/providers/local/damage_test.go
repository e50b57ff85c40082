//go:build linux

package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// damages are the kinds of damage to a stored file.
func damages() map[string]func(path string) error {
	return map[string]func(path string) error{
		"truncated": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()/2)
		},
		"flipped": func(path string) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text[len(text)/2] ^= 1
			return os.WriteFile(path, text, 0o600)
		},
		"{}":      func(path string) error { return os.WriteFile(path, []byte("{}"), 0o600) },
		"missing": os.Remove,
	}
}

// filesOf returns the regular files below a directory.
func filesOf(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}

// copyTree replaces a directory by a copy of another.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
		t.Fatal(err)
	}
}

// stoppedTwice returns a stopped sandbox with two generations of saved files: /root/n holds 1 in the first and 2 in the
// second.
func stoppedTwice(t *testing.T) (*Provider, core.Sandbox) {
	t.Helper()
	p, sb := crashed(t, func(spec *core.Spec) {
		spec.Persist = true
		spec.Secrets = []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("hidden")}}
	})
	for _, n := range []string{"1", "2"} {
		output(t, p, sb.ID, "echo -n "+n+" > /root/n")
		if err := p.Stop(t.Context(), sb.ID, time.Second); err != nil {
			t.Fatal(err)
		}
		if n == "1" {
			if _, err := p.Start(t.Context(), sb.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p, sb
}

// nothingIsPruned fails if prune would remove something of a stopped sandbox.
func nothingIsPruned(t *testing.T, p *Provider, id string) {
	t.Helper()
	leftovers, err := p.Leftovers(t.Context())
	if err != nil || len(leftovers) != 0 {
		t.Errorf("left over are %+v, %v", leftovers, err)
	}
	if sb, err := p.Get(t.Context(), id); err != nil || sb.State != core.StateStopped {
		t.Errorf("it is %+v, %v", sb, err)
	}
}

// A damaged file of a stopped sandbox never loses the saved files. The sandbox starts from its copy or the generation
// before, or it does not start. The message names the file.
func TestDamagedFilesOfAStoppedSandbox(t *testing.T) {
	programtest.Long(t)
	p, sb := stoppedTwice(t)
	dir, backup := p.store.Dir(sb.ID), t.TempDir()
	copyTree(t, dir, backup)
	newest := store.SavesIn(dir).Dir(2)
	for _, path := range filesOf(t, dir) {
		name := strings.TrimPrefix(path, dir+"/")
		generation := filepath.Dir(path)
		if strings.HasSuffix(name, "lock") || name == "client/supervisor.json" || strings.HasSuffix(name, ".copy") ||
			strings.HasPrefix(name, store.JournalDir) || name == store.LogFile || generation != newest &&
			filepath.Dir(generation) == filepath.Dir(newest) {
			continue
		}
		// Each kind of damage to the metadata is tested in package store; here it is one that each reader meets.
		for what, damage := range damages() {
			if generation != newest && what != "{}" && what != "missing" {
				continue
			}
			t.Run(name+" "+what, func(t *testing.T) {
				defer copyTree(t, backup, dir)
				if err := damage(path); err != nil {
					t.Fatal(err)
				}
				nothingIsPruned(t, p, sb.ID)
				want, named := "2", false
				if generation == newest && !strings.HasPrefix(filepath.Base(path), store.SumsFile) {
					want, named = "1", true
				}
				started, err := p.Start(t.Context(), sb.ID)
				if err != nil {
					t.Fatal(err)
				}
				defer end(t, p, sb.ID, syscall.SIGTERM)
				if got := output(t, p, sb.ID, "cat /root/n; echo -n $TOKEN"); got != want+"hidden" {
					t.Errorf("it holds %q", got)
				}
				if strings.Contains(started.Message, path) != named {
					t.Errorf("the message is %q", started.Message)
				}
			})
		}
	}
}

// With a file and its copy damaged nothing is started as if it were new, nothing is pruned, and the saved files can
// still be kept.
func TestDamagedCopies(t *testing.T) {
	programtest.Long(t)
	p, sb := stoppedTwice(t)
	dir, backup := p.store.Dir(sb.ID), t.TempDir()
	copyTree(t, dir, backup)
	for _, name := range []string{"client/lease.json", "state.json", "client/secrets.json"} {
		for what, damage := range damages() {
			t.Run(name+" "+what, func(t *testing.T) {
				defer copyTree(t, backup, dir)
				for _, path := range []string{filepath.Join(dir, name), filepath.Join(dir, name+".copy")} {
					if err := damage(path); err != nil {
						t.Fatal(err)
					}
				}
				nothingIsPruned(t, p, sb.ID)
				found, err := p.FindName(t.Context(), sb.Name)
				if err != nil || found.ID != sb.ID || found.Name != sb.Name {
					t.Errorf("by its name: %+v, %v", found, err)
				}
				if name != "client/secrets.json" && !strings.Contains(found.Message, name) && (what != "missing" ||
					name == "client/lease.json") {
					t.Errorf("its message is %q", found.Message)
				}
				_, err = p.Start(t.Context(), sb.ID)
				switch {
				case err == nil && name != "state.json":
					t.Errorf("it was started without its %s", name)
					end(t, p, sb.ID, syscall.SIGTERM)
				case err == nil:
					if got := output(t, p, sb.ID, "cat /root/n"); got != "2" {
						t.Errorf("it holds %q", got)
					}
					end(t, p, sb.ID, syscall.SIGTERM)
				case !strings.Contains(err.Error(), name):
					t.Errorf("start: %v", err)
				}
				snapshot, err := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "kept"})
				if err != nil {
					t.Fatal(err)
				}
				again := launched(t, p, func(spec *core.Spec) { spec.Snapshot = snapshot.ID })
				if got := output(t, p, again.ID, "cat /root/n"); got != "2" {
					t.Errorf("from the snapshot: %q", got)
				}
				if err := p.RemoveSnapshot(t.Context(), snapshot.ID); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Without an intact generation the sandbox does not start, and is not removed.
func TestStartWithoutIntactSave(t *testing.T) {
	p, sb := stoppedTwice(t)
	saves := store.SavesIn(p.store.Dir(sb.ID))
	for _, generation := range []int{1, 2} {
		if err := os.Truncate(filepath.Join(saves.Dir(generation), store.SumsFile), 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(saves.Dir(generation), store.SumsFile+".copy")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Start(t.Context(), sb.ID); !errors.Is(err, core.KindConflict) ||
		!strings.Contains(err.Error(), saves.Dir(2)) {
		t.Errorf("start: %v", err)
	}
	nothingIsPruned(t, p, sb.ID)
}

// A damaged checkpoint or snapshot is reported, and no sandbox is launched from it. It stays until it is removed by its
// name.
func TestDamagedShelf(t *testing.T) {
	p, sb := crashed(t, nil)
	output(t, p, sb.ID, "echo -n 1 > /root/n")
	if _, err := p.Checkpoint(t.Context(), sb.ID, "point"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "snap"}); err != nil {
		t.Fatal(err)
	}
	for thing, launch := range map[string]core.Spec{
		"checkpoints/point": {Checkpoint: "point"}, "snapshots/snap": {Snapshot: "snap"},
	} {
		dir, backup := filepath.Join(p.opts.StateDir, Name, thing), t.TempDir()
		copyTree(t, dir, backup)
		for _, path := range filesOf(t, dir) {
			if strings.HasSuffix(path, ".copy") || strings.HasSuffix(path, "/lock") {
				continue
			}
			for what, damage := range damages() {
				t.Run(thing+" "+filepath.Base(path)+" "+what, func(t *testing.T) {
					defer copyTree(t, backup, dir)
					if err := damage(path); err != nil {
						t.Fatal(err)
					}
					if _, err := os.Stat(path + ".copy"); err == nil {
						if err := damage(path + ".copy"); err != nil {
							t.Fatal(err)
						}
					}
					spec := launch
					spec.Name, spec.Image, spec.Network = core.NewName(), HostImage, core.Network{Mode: core.NetworkNone}
					made, err := p.Launch(t.Context(), spec, core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}, nil)
					if err == nil {
						t.Error("it was launched")
						if err := p.Terminate(context.WithoutCancel(t.Context()), made.ID); err != nil {
							t.Error(err)
						}
					} else if !errors.Is(err, core.KindConflict) || !strings.Contains(err.Error(), path) {
						t.Errorf("launch: %v", err)
					}
					leftovers, err := p.Leftovers(t.Context())
					if err != nil || len(leftovers) != 0 {
						t.Errorf("left over are %+v, %v", leftovers, err)
					}
					listed, err := p.Snapshots(t.Context())
					points, pointsErr := p.Checkpoints(t.Context())
					if err != nil || pointsErr != nil || len(listed) != 1 || len(points) != 1 {
						t.Errorf("listed are %+v, %+v, %v, %v", listed, points, err, pointsErr)
					}
				})
			}
		}
	}
	if err := errors.Join(p.RemoveCheckpoint(t.Context(), "point"), p.RemoveSnapshot(t.Context(), "snap")); err != nil {
		t.Error(err)
	}
}

// A state that is lost in both copies is reported, while the sandbox runs and after that.
func TestLostStateIsNamed(t *testing.T) {
	p, sb := crashed(t, nil)
	pid := supervisorPID(t, p, sb.ID)
	path := p.store.StatePath(sb.ID)
	lose := func() {
		t.Helper()
		for _, name := range []string{path, path + ".copy"} { // the supervisor may write them again
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	lose()
	if got, err := p.Get(t.Context(), sb.ID); err != nil || got.State != core.StateRunning ||
		!strings.Contains(got.Message, path) {
		t.Errorf("it runs: %s, %q, %v", got.State, got.Message, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, "the sandbox is lost", func() bool { return !p.store.Locked(sb.ID) })
	lose()
	if got, err := p.Get(t.Context(), sb.ID); err != nil || got.State != core.StateLost ||
		!strings.Contains(got.Message, path) {
		t.Errorf("afterwards: %s, %q, %v", got.State, got.Message, err)
	}
}
