//go:build linux

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/runsc/container"
)

// Memory returns the memory of the sandbox's processes and its files in memory, in bytes, without caches. It is cheap
// enough for many calls a second.
func (b *Box) Memory() (int64, error) {
	var used int64
	err := b.call(func(c *container.Container) error {
		usage, err := c.Sandbox.Usage(false)
		//nolint:gosec // an amount of memory
		used = int64(usage.Total - min(usage.Total, usage.PageCache+usage.Mapped))
		return err
	})
	return used, err
}

// Overhead returns the memory of the sandbox's kernel, its file server and this process, in bytes. A sandbox can
// increase it, by pipes and connections without a reader. The call is as cheap as Memory.
func (b *Box) Overhead() (int64, error) {
	held, err := anonymous(os.Getpid())
	for _, process := range b.processes {
		own, ownErr := anonymous(process.Pid)
		held, err = held+own, errors.Join(err, ownErr)
	}
	return held, err
}

// anonymous returns the memory of a process without mapped files, in bytes: proc_pid_statm(5).
func anonymous(pid int) (int64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(statm), &size, &resident, &shared); err != nil {
		return 0, fmt.Errorf("reading statm: %w", err)
	}
	return (resident - shared) * int64(os.Getpagesize()), nil
}

// Usage measures the whole sandbox.
func (b *Box) Usage() (Usage, error) {
	var u Usage
	err := b.call(func(c *container.Container) error {
		processes, err := c.Processes()
		u.Processes = len(processes)
		return err
	})
	if err != nil {
		return u, err
	}
	if u.Memory, err = b.Memory(); err != nil {
		return u, err
	}
	if u.CPU, err = treeTime(b.SandboxPID()); err != nil {
		return u, err
	}
	u.CPU = max(u.CPU-b.uncounted, 0)
	u.Disk, err = b.Disk()
	return u, err
}

// CountFromNow makes Usage count processor time from now on. No call may be in progress.
func (b *Box) CountFromNow() error {
	used, err := treeTime(b.SandboxPID())
	b.uncounted = used
	return err
}

// Disk returns the size of the writable layer on disk, in bytes.
func (b *Box) Disk() (int64, error) {
	var stat unix.Stat_t
	err := b.call(func(*container.Container) error { return unix.Fstat(int(b.overlay.Fd()), &stat) })
	return stat.Blocks * 512, err
}

// openOverlay opens the unlinked file behind the writable layer through the sentry's descriptor.
func openOverlay(pid int, dir string) (*os.File, error) {
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil, err
	}
	for _, fd := range fds {
		// The sentry has left the mounts of this process. If dir is not on the file system of "/", the link has only the
		// path in its file system: d_path in proc_pid_fd(5).
		target, err := os.Readlink(fd)
		if err != nil || filepath.Base(filepath.Dir(target)) != filepath.Base(dir) || !deleted(fd) {
			continue
		}
		opened, err := os.Open(fd)
		if err != nil {
			return nil, fmt.Errorf("opening the writable layer: %w", err)
		}
		return opened, nil
	}
	return nil, fmt.Errorf("the writable layer of process %d is not open", pid)
}

// deleted reports whether the file of a process's descriptor has no name anymore.
func deleted(fd string) bool {
	var stat unix.Stat_t
	return unix.Stat(fd, &stat) == nil && stat.Nlink == 0
}

// treeTime returns the processor time of a process and its descendants.
func treeTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 15 {
		return 0, errors.New("the process's stat file is too short")
	}
	var ticks int64
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime: proc(5)
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
	total := time.Duration(ticks) * tick
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, task := range tasks {
		children, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(children)) {
			if child, err := strconv.Atoi(field); err == nil {
				if used, err := treeTime(child); err == nil {
					total += used
				}
			}
		}
	}
	return total, nil
}
