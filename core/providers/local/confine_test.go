//go:build linux

package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// The process that parses a sandbox's packets has no capabilities and its own system call filter, in all its threads.
func TestSupervisorIsConfined(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) { spec.Network = core.Network{Mode: core.NetworkAll} })
	fork := forkOf(t, p, sb.ID)
	for _, id := range []string{sb.ID, fork.ID} {
		threads, err := filepath.Glob(filepath.Join(procOf(t, p, id), "task", "*", "status"))
		if err != nil || len(threads) == 0 {
			t.Fatalf("the supervisor's threads: %v, %v", threads, err)
		}
		for _, thread := range threads {
			status, err := os.ReadFile(thread)
			if err != nil {
				continue // it has ended
			}
			checkStatus(t, string(status))
		}
	}
}

// procOf returns the directory in /proc of a sandbox's supervisor.
func procOf(t *testing.T, p *Provider, id string) string {
	t.Helper()
	return filepath.Join("/proc", strconv.Itoa(supervisorPID(t, p, id)))
}

// checkStatus reads the file "status" of a thread: proc_pid_status(5).
func checkStatus(t *testing.T, status string) {
	t.Helper()
	const none = "0000000000000000"
	want := map[string]string{
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2",
	}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if wanted, checked := want[name]; checked && value != wanted {
			t.Errorf("%s of a thread of the supervisor is %s, not %s", name, value, wanted)
		}
		// The client installs one filter before the supervisor starts.
		if filters, err := strconv.Atoi(value); name == "Seccomp_filters" && (err != nil || filters < 2) {
			t.Errorf("a thread of the supervisor has %s filters", value)
		}
	}
}

// The supervisor sees only the files that it needs, and can write only in its sandbox's directory.
func TestSupervisorSeesOnlyItsFiles(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) { spec.Network = core.Network{Mode: core.NetworkAll} })
	other := launched(t, p, func(*core.Spec) {})
	fork := forkOf(t, p, sb.ID)
	for _, id := range []string{sb.ID, fork.ID} {
		root := filepath.Join(procOf(t, p, id), "root")
		if _, err := os.Stat(filepath.Join(root, p.store.Dir(id))); err != nil {
			t.Fatalf("the sandbox's own directory: %v", err)
		}
		if entries, err := os.ReadDir(filepath.Join(root, p.store.Dir(id), store.ClientDir)); err != nil || len(entries) > 0 {
			t.Errorf("the supervisor sees the clients' files: %v, %v", entries, err)
		}
		// From an open directory ".." leads out of the root.
		open, err := filepath.Glob(filepath.Join(procOf(t, p, id), "fd", "*"))
		if err != nil || len(open) == 0 {
			t.Fatal(open, err)
		}
		for _, fd := range open {
			if info, err := os.Stat(fd); err == nil && info.IsDir() {
				if _, err := os.Lstat(filepath.Join(fd, "..", p.store.Dir(id))); err == nil {
					t.Errorf("%s leads out of the supervisor's root", fd)
				}
			}
		}
		hidden := []string{
			"/root/.ssh", "/home", "/usr/bin", "/var", "/sys", "/dev/mem", p.store.Dir(other.ID), p.opts.CacheDir,
		}
		if os.Geteuid() == 0 { // else all of /etc may be shown, as other users see it
			hidden = append(hidden, "/etc/crontab", "/etc/passwd", "/etc/shadow", "/etc/ssh")
		}
		for _, path := range hidden {
			if strings.HasPrefix(p.store.Dir(id), path+"/") {
				continue // the test's own directory lies there
			}
			if _, err := os.Lstat(filepath.Join(root, path)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the supervisor sees %s: %v", path, err)
			}
		}
		// gVisor's own files may have a short path.
		writable := []string{p.store.Dir(id), os.DevNull, "/mnt", "/media", "/srv"}
		mounts, err := os.ReadFile(filepath.Join(procOf(t, p, id), "mountinfo"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(mounts)) {
			fields := strings.Fields(line) // the fifth is where, the sixth are the mount's options: proc_pid_mountinfo(5)
			if slices.Contains(strings.Split(fields[5], ","), "rw") && !slices.Contains(writable, fields[4]) {
				t.Errorf("the supervisor can write in %s", fields[4])
			}
		}
	}
}

// forger is a compromised supervisor.
type forger struct {
	t *testing.T
	// dir is the sandbox's directory. plant is called for a request to write to out.
	dir   string
	plant func(out string) error
}

func (f forger) Exec(grpc.BidiStreamingServer[socket.Ask, socket.Answer], *socket.Files) error {
	return errors.New("not served")
}

func (f forger) Control(_ context.Context, request *wire.Request, files *socket.Files) *wire.Reply {
	if taken, err := files.Take(1); err == nil {
		_ = taken[0].Close()
		f.t.Errorf("%s: the supervisor was given a descriptor", request.Verb)
	}
	if err := f.plant(filepath.Join(f.dir, request.Dir)); err != nil {
		f.t.Error(err)
	}
	return &wire.Reply{Kept: &wire.Kept{}}
}

// Planted links in place of a sandbox's files are refused: a sandbox that starts from them would read files of the
// host.
func TestPlantedFilesAreRefused(t *testing.T) {
	for name, plant := range map[string]func(out string) error{
		"link": func(out string) error { return os.Symlink("/etc/passwd", filepath.Join(out, "pages.img")) },
		"FIFO": func(out string) error { return syscall.Mkfifo(filepath.Join(out, "pages.img"), 0o600) },
		"directory": func(out string) error {
			return errors.Join(
				os.Mkdir(filepath.Join(out, "pages.img"), 0o700), os.WriteFile(filepath.Join(out, "pages.img", "x"), nil, 0o600),
			)
		},
		"another directory": func(out string) error { return errors.Join(os.Remove(out), os.Symlink("/etc", out)) },
	} {
		t.Run(name, func(t *testing.T) {
			p, ok := opener(t, nil)(t).(*Provider)
			if !ok {
				t.Fatal("not the local provider")
			}
			const id = "loc-forgerfo"
			lock, err := p.store.Create(id)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = lock.Close() }()
			state := store.State{State: core.StateRunning, BootID: core.BootID()}
			if err := errors.Join(
				store.WriteLease(p.store.Dir(id), leaseOf(id)), store.WriteState(p.store.Dir(id), state, false),
				os.Mkdir(p.store.RuntimeDir(id), 0o700),
			); err != nil {
				t.Fatal(err)
			}
			listener, err := socket.Listen(p.store.Socket(id))
			if err != nil {
				t.Fatal(err)
			}
			server := socket.NewServer()
			socket.Register(server, forger{t, p.store.Dir(id), plant})
			var serving sync.WaitGroup
			serving.Go(func() { _ = server.Serve(listener) })
			defer serving.Wait()
			defer server.Stop()
			made, err := p.Snapshot(t.Context(), id, core.SnapshotOptions{Name: "planted"})
			if files, readErr := p.snapshotFiles("planted"); readErr == nil {
				entries, _ := os.ReadDir(files)
				if name != "another directory" || len(entries) > 2 {
					t.Errorf("%+v was made with %v", made, entries)
				}
			} else if err == nil {
				t.Error(readErr)
			}
			if _, err := p.Checkpoint(t.Context(), id, "planted"); err == nil && name != "another directory" {
				t.Error("a checkpoint was made")
			}
			left, err := filepath.Glob(filepath.Join(p.store.Dir(id), store.OutPrefix+"*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left are %q, %v", left, err)
			}
		})
	}
}
