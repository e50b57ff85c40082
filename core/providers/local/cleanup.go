//go:build linux

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// remainsTimeout bounds how long the processes of a dead supervisor may take to end after SIGKILL.
const cleanupTimeout = 10 * time.Second

// forget removes a sandbox. The caller holds its lock. The record is removed last: while anything of the sandbox is
// left, the record names it, and forget can be called again.
func (p *Provider) forget(ctx context.Context, id, name string) error {
	if err := p.clear(ctx, id); err != nil {
		return err
	}
	return p.store.Remove(id, name)
}

// clear ends and removes what a supervisor that was killed left of a sandbox: processes, control group, writable layer,
// sockets. The record and the saved files stay. The caller holds the sandbox's lock.
func (p *Provider) clear(ctx context.Context, id string) error {
	group, err := p.groupOf(id)
	if err != nil {
		return err
	}
	// A supervisor that let go of its lock and lives on could change what the next one starts from.
	if err := p.killSupervisor(ctx, id); err != nil && !errors.Is(err, fs.ErrNotExist) && !store.IsDamage(err) {
		return core.Errorf(core.KindUnavailable, "local", id, "its supervisor cannot be ended: %w", err)
	}
	// A supervisor removes this directory when everything else has ended, so its absence proves that no process is left.
	if _, err := os.Lstat(p.store.RuntimeDir(id)); !errors.Is(err, fs.ErrNotExist) {
		if err := killProcesses(ctx, id, group); err != nil {
			return err
		}
	}
	if err := group.Remove(); err != nil {
		return core.Errorf(core.KindUnavailable, "local", id, "its control group cannot be removed: %w", err).
			WithHint("end the processes in it, then try again")
	}
	return errors.Join(os.RemoveAll(p.overlayDir(id)), os.RemoveAll(p.store.RuntimeDir(id)), p.store.RemoveOuts(id))
}

// killProcesses kills the processes of a sandbox whose supervisor has ended, and waits for their end.
func killProcesses(ctx context.Context, id string, group *cgroup.Group) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	for {
		found, err := processesOf(id, group)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, pid := range found {
			still := func() bool { return isGVisorOf(pid, id) || slices.Contains(group.Processes(), pid) }
			if err := killProcess(ctx, pid, still); err != nil {
				return core.Errorf(core.KindUnavailable, "local", id, "its process %d cannot be ended: %w", pid, err)
			}
		}
	}
}

// processesOf returns the processes of a sandbox: those of gVisor that bear its id, and those in its control group.
func processesOf(id string, group *cgroup.Group) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	found := group.Processes()
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && !slices.Contains(found, pid) && isGVisorOf(pid, id) {
			found = append(found, pid)
		}
	}
	return slices.DeleteFunc(found, func(pid int) bool {
		_, alive := core.ProcessStart(pid)
		return !alive || pid == os.Getpid()
	}), nil
}

// isGVisorOf reports whether a process is one of gVisor's for a sandbox: they are named runsc-sandbox and runsc-gofer,
// and their last argument is the sandbox's id, which no other sandbox ever has.
func isGVisorOf(pid int, id string) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && bytes.HasPrefix(text, []byte("runsc-")) && bytes.HasSuffix(text, []byte("\x00"+id+"\x00"))
}

// killProcess kills a process and waits until it has ended. still is asked after the process was pinned, so that
// another process that has got its number is left alone. SIGKILL ends a stopped process, too.
func killProcess(ctx context.Context, pid int, still func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if !still() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	for {
		//nolint:gosec // a descriptor
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(poll.Milliseconds()))
		switch {
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("it is still there after SIGKILL: %w", ctx.Err())
		}
	}
}

// groupOf returns the control group of a sandbox, which has no directories if there is none. Of a file that cannot be
// believed it is the group that this process would make: that is where it was made, most likely.
func (p *Provider) groupOf(id string) (*cgroup.Group, error) {
	group, _, err := p.readGroup(id)
	if !store.IsDamage(err) {
		return group, err
	}
	if found, err := cgroup.Find(p.store.GroupName(id)); err == nil {
		return found, nil
	}
	return &cgroup.Group{}, nil
}

// readGroup reads where a sandbox's control group is. damage says that the copy of the file was read.
func (p *Provider) readGroup(id string) (group *cgroup.Group, damage, err error) {
	path := filepath.Join(p.store.Dir(id), store.GroupFile)
	group = &cgroup.Group{}
	damage, err = store.ReadJSON(path, group)
	if errors.Is(err, fs.ErrNotExist) {
		return group, nil, nil
	}
	if err == nil {
		if why := group.Check("-" + id); why != nil {
			return &cgroup.Group{}, nil, &store.DamageError{Path: path, Why: why.Error()}
		}
	}
	return group, damage, err
}
