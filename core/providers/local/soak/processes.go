//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// process is a process that runs one of the world's programs.
type process struct {
	pid     int
	started uint64 // from core.ProcessStart; with pid it identifies a process
	parent  int
	role    role
	sandbox string // the sandbox's id, "" if it is unknown
	command string
}

func (p process) String() string {
	return fmt.Sprintf("%s %d of %q: %.160s", p.role, p.pid, p.sandbox, p.command)
}

// sandboxID matches the id of a local sandbox.
func sandboxID() *regexp.Regexp { return regexp.MustCompile(`loc-[a-z0-9]{8}\b`) }

// processes lists the processes that run the world's programs. It finds them by the programs' inodes, which no other
// process has.
func (w *world) processes() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	id := sandboxID()
	var all []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if p, ok := w.process(pid, id); ok {
			all = append(all, p)
		}
	}
	adopt(all)
	return all, nil
}

// adopt sets the sandbox of processes that a sentry traces, because those have no command line.
func adopt(all []process) {
	for range all {
		changed := false
		for i, p := range all {
			j := slices.IndexFunc(all, func(q process) bool { return q.pid == p.parent })
			if p.role == traced && p.sandbox == "" && j >= 0 && all[j].sandbox != "" {
				all[i].sandbox, changed = all[j].sandbox, true
			}
		}
		if !changed {
			return
		}
	}
}

// process describes a process. ok is false for a process outside the world, or one that ends.
func (w *world) process(pid int, id *regexp.Regexp) (p process, ok bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	var program unix.Stat_t
	if unix.Stat(filepath.Join(dir, "exe"), &program) != nil ||
		!slices.Contains(w.programs, inode{program.Dev, program.Ino}) {
		return p, false
	}
	started, alive := core.ProcessStart(pid)
	command, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || !alive {
		return p, false
	}
	p = process{
		pid: pid, started: started,
		command: string(bytes.ReplaceAll(bytes.TrimRight(command, "\x00"), []byte{0}, []byte{' '})), role: client,
	}
	p.sandbox = id.FindString(p.command)
	switch program, _, _ := strings.Cut(p.command, " "); {
	case program == "":
		p.role = traced
	case program == "runsc-sandbox":
		p.role = sentry
	case program == "runsc-gofer":
		p.role = gofer
	case strings.HasSuffix(p.command, " supervise"):
		p.role = supervisor
		lock, _ := os.Readlink(filepath.Join(dir, "fd/3")) // the sandbox's lock
		p.sandbox = id.FindString(lock)
	}
	p.parent = parentOf(dir)
	return p, true
}

// parentOf returns the parent's process id, or 0 if the process has ended.
func parentOf(dir string) int {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0
	}
	// The name in parentheses may contain any bytes: proc_pid_stat(5).
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}

// find returns the process of a role in a sandbox. If that executed itself again, find returns the first process.
func (w *world) find(sandbox string, r role) (process, bool) {
	all, err := w.processes()
	if err != nil || sandbox == "" {
		return process{}, false
	}
	for _, p := range all {
		if p.sandbox != sandbox || p.role != r {
			continue
		}
		again := slices.ContainsFunc(all, func(q process) bool { return q.pid == p.parent && q.role == p.role })
		if !again {
			return p, true
		}
	}
	return process{}, false
}

// errGone means that a process ended before the signal.
var errGone = errors.New("the process has ended")

// signal sends a signal to exactly this process. It returns errGone if the process has ended.
func (p process) signal(signal unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return errGone
	}
	defer func() { _ = unix.Close(fd) }()
	if started, alive := core.ProcessStart(p.pid); !alive || started != p.started {
		return errGone
	}
	err = unix.PidfdSendSignal(fd, signal, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return errGone
	}
	return err
}

// ending bounds the wait for a process's end after a signal. A sentry forwards SIGTERM and keeps running.
const ending = 2 * time.Second

// awaitEnd waits until a signaled process has ended. Until then a comparison with "sb ls" would count it as running.
func (p process) awaitEnd(ctx context.Context) {
	for began := time.Now(); time.Since(began) < ending && ctx.Err() == nil; wait(ctx, time.Millisecond) {
		if started, alive := core.ProcessStart(p.pid); !alive || started != p.started {
			return
		}
	}
}
