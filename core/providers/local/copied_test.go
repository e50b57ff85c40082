//go:build linux

package local_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/local"
)

// TestCopyOnWriteIsKept writes to a host directory that is copied on write. A stop and a start, a fork, a checkpoint
// and a snapshot keep what was written, and the host's file stays.
func TestCopyOnWriteIsKept(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(source, "file")
	if err := os.WriteFile(file, []byte("host"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := local.New(local.Options{
		StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"),
		Runtime: filepath.Join(programtest.Dir(), "sb-runtime"), HostDirs: []string{source},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	keeper, ok := p.(interface {
		core.Forker
		core.Checkpointer
		core.Snapshotter
		core.Stopper
		core.Differ
	})
	if !ok {
		t.Fatalf("%T", p)
	}
	lease := core.Lease{Owner: core.CurrentOwner("test")}
	run := func(id, line, want string) {
		t.Helper()
		var out, errs bytes.Buffer
		process, err := p.Exec(t.Context(), id, core.ExecSpec{
			Command: []string{"sh", "-c", "cd /srv/app && " + line}, Stdout: &out, Stderr: &errs,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := process.Wait(t.Context()); err != nil || out.String()+errs.String() != want {
			t.Errorf("%s: %q and %q instead of %q, %v", line, out.String(), errs.String(), want, err)
		}
	}
	kept := func(sb core.Sandbox, err error) core.Sandbox {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Terminate(context.WithoutCancel(t.Context()), sb.ID); err != nil {
				t.Error(err)
			}
		})
		return sb
	}
	volumes := []core.Volume{{Source: source, Target: "/srv/app", CopyOnWrite: true}}
	sb := kept(p.Launch(t.Context(), core.Spec{Name: "copied", Persist: true, Volumes: volumes}, lease, nil))
	run(sb.ID, "cat file; echo inside > file; echo new > new", "host")
	const check, want = "cat file new", "inside\nnew\n"
	fork := kept(keeper.Fork(t.Context(), sb.ID, core.ForkSpec{Name: "fork"}, lease))
	run(fork.ID, check, want)
	if _, err := keeper.Checkpoint(t.Context(), sb.ID, "point"); err != nil {
		t.Fatal(err)
	}
	snapshot, err := keeper.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "shot"})
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Stop(t.Context(), sb.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := keeper.Start(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	run(sb.ID, check, want)
	changes, err := keeper.Diff(t.Context(), sb.ID)
	if err != nil || len(changes) != 2 || changes[0] != (core.Change{Path: "/srv/app/file", Kind: "changed"}) ||
		changes[1] != (core.Change{Path: "/srv/app/new", Kind: "added"}) {
		t.Errorf("%+v, %v", changes, err)
	}
	for _, spec := range []core.Spec{
		{Name: "again", Checkpoint: "point", Volumes: volumes, Persist: true},
		{Name: "shot", Snapshot: snapshot.ID, Volumes: volumes},
	} {
		run(kept(p.Launch(t.Context(), spec, lease, nil)).ID, check, want)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "host" {
		t.Errorf("the host's file is %q, %v", text, err)
	}
	if entries, err := os.ReadDir(source); err != nil || len(entries) != 1 {
		t.Errorf("the host's directory has %v, %v", entries, err)
	}
}
