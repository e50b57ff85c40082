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

// cleanupTimeout bounds how long the processes of a dead supervisor may take to end after SIGKILL.
const cleanupTimeout = 10 * time.Second

// forget removes a sandbox. The caller holds its lock. forget removes the record last, so it can be called again after
// an error.
func (p *Provider) forget(ctx context.Context, id, name string) error {
	if err := p.clear(ctx, id); err != nil {
		return err
	}
	return p.store.Remove(id, name)
}

// clear removes the leftovers of a killed supervisor: processes, control group, writable layer and sockets. The record
// and the saved files stay. The caller holds the sandbox's lock.
func (p *Provider) clear(ctx context.Context, id string) error {
	group, err := p.groupOf(id)
	if err != nil {
		return err
	}
	// A supervisor that released its lock but still runs could change files that the next supervisor starts from.
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

// isGVisorOf reports whether a process is a gVisor process of the sandbox. Those are named runsc-sandbox and
// runsc-gofer. Their last argument is the sandbox's id, which is unique.
func isGVisorOf(pid int, id string) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && bytes.HasPrefix(text, []byte("runsc-")) && bytes.HasSuffix(text, []byte("\x00"+id+"\x00"))
}

// killProcess kills a process and waits for its end. It calls still once it holds a pidfd, so it never kills another
// process that reused the pid. SIGKILL ends a stopped process, too.
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

// groupOf returns the control group of a sandbox. Without a control group the result has no directories. If the group's
// file is damaged, groupOf returns the group that this process would make: most likely that one was made.
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

// readGroup reads the location of a sandbox's control group. damage is set if it came from the copy of the file.
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
