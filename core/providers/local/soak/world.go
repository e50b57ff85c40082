//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// inode identifies a file.
type inode struct{ dev, ino uint64 }

// world is a user's environment for one soak: programs, directories and the files in them when nothing runs.
type world struct {
	dir      string
	programs []inode
	store    *store.Store
	made     *watcher
	// empty has the files in the directories when all sandboxes are gone.
	empty map[string]bool
}

// newWorld copies the programs of bin into a new directory below dir. The copies identify the world's processes.
func newWorld(bin, dir string) (_ *world, err error) {
	root, err := os.MkdirTemp(dir, "sb-soak-")
	if err != nil {
		return nil, err
	}
	w := &world{dir: root}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	for _, name := range []string{"bin", "home", "run", "tmp", "work"} {
		if err := os.Mkdir(w.path(name), 0o700); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"sb", "sb-runtime", "sb-guest"} {
		copied, err := copyProgram(filepath.Join(bin, name), w.path("bin", name))
		if err != nil {
			return nil, err
		}
		w.programs = append(w.programs, copied)
	}
	w.store = store.New(w.path("home/.local/state/sb/local"))
	return w, nil
}

func copyProgram(from, to string) (inode, error) {
	in, err := os.Open(from)
	if err != nil {
		return inode{}, err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // a program
	if err != nil {
		return inode{}, err
	}
	_, err = io.Copy(out, in)
	var copied unix.Stat_t
	err = errors.Join(err, unix.Fstat(int(out.Fd()), &copied), out.Close())
	return inode{copied.Dev, copied.Ino}, err
}

func (w *world) path(elements ...string) string {
	return filepath.Join(append([]string{w.dir}, elements...)...)
}

// answer is the result of a call of sb.
type answer struct {
	code           int
	signaled       bool
	stdout, stderr string
	took           time.Duration
	// err is set if sb could not be started, or did not end in time.
	err error
}

// callTimeout bounds each call. A stopped supervisor delays a call by less than core/providers/local's endTimeout and
// the time of a kill.
const callTimeout = 2 * time.Minute

// command returns a call of sb in the world. When its context ends, the call prints the stacks of its goroutines.
func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, w.path("bin/sb"), args...) //nolint:gosec // the soak's own copy of sb
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + w.path("home"), "XDG_RUNTIME_DIR=" +
			w.path("run"),
		"TMPDIR=" + w.path("tmp"), "SB_LOCAL_FREEZE_AFTER=50ms", "SB_LOCAL_SAVE_INTERVAL=1s", "SB_DOCKER_HOST=none",
		"SB_LOCAL_SPARES=0",
	}
	cmd.Dir = w.path("work")
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGQUIT) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// sb runs one call to its end. It calls started, unless nil, with the call's process.
func (w *world) sb(ctx context.Context, started func(process), args ...string) answer {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	cmd := w.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Start()
	if err == nil {
		if started != nil {
			if p, ok := w.process(cmd.Process.Pid, sandboxID()); ok {
				p.role = client
				started(p)
			}
		}
		err = cmd.Wait()
	}
	a := answer{stdout: stdout.String(), stderr: stderr.String(), took: time.Since(began)}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && ctx.Err() == nil:
		a.code, a.signaled = exit.ExitCode(), !exit.Exited()
	default:
		a.code, a.err = -1, err
	}
	return a
}

// contents lists the files in the world's directories, except for its programs and this program's own files.
func (w *world) contents() (map[string]bool, error) {
	found := map[string]bool{}
	for _, dir := range []string{"home", "run", "tmp"} {
		err := filepath.WalkDir(w.path(dir), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && !strings.HasPrefix(entry.Name(), "audit") {
				found[strings.TrimPrefix(path, w.dir+"/")] = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// difference lists the files in the world that an empty world does not have.
func (w *world) difference() ([]string, error) {
	now, err := w.contents()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(now, func(path string, _ bool) bool { return w.empty[path] })
	return slices.Sorted(maps.Keys(now)), nil
}

// settle makes and removes one of everything. The files that remain are those of an empty world.
func (w *world) settle(ctx context.Context) error {
	for _, args := range [][]string{
		{"launch", "--name", "first", "--memory", "256MiB"},
		{"checkpoint", "create", "first", "--name", "first"},
		{"snapshot", "first", "first"},
		{"ls"},
		{"checkpoint", "rm", "first"},
		{"snapshot", "rm", "first"},
		{"terminate", "first"},
		{"prune", "--yes"},
	} {
		if a := w.sb(ctx, nil, args...); a.code != 0 {
			return fmt.Errorf("sb %s: exit code %d: %s %w", strings.Join(args, " "), a.code, a.stderr, a.err)
		}
	}
	w.made.close()
	var err error
	if w.made, err = watch(filepath.Dir(w.store.Dir("x"))); err != nil {
		return err
	}
	w.empty, err = w.contents()
	return err
}

// again restarts from an empty world after a violation.
func (w *world) again(ctx context.Context) error {
	if err := w.clear(); err != nil {
		return err
	}
	return w.settle(ctx)
}

// clear kills all processes in the world and removes all state.
func (w *world) clear() error {
	if err := w.killAll(); err != nil {
		return err
	}
	var errs []error
	for _, dir := range []string{"home", "run", "tmp"} {
		entries, err := os.ReadDir(w.path(dir))
		errs = append(errs, err)
		for _, entry := range entries {
			errs = append(errs, os.RemoveAll(w.path(dir, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

// killAll kills the world's processes until there are none.
func (w *world) killAll() error {
	for range 200 {
		all, err := w.processes()
		if err != nil || len(all) == 0 {
			return err
		}
		for _, p := range all {
			_ = p.signal(unix.SIGKILL) // it may have ended
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("processes of the soak cannot be killed")
}

// close kills all processes of the world and removes its files.
func (w *world) close() error {
	w.made.close()
	return errors.Join(w.killAll(), os.RemoveAll(w.dir))
}
