//go:build linux

package box

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/command"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/program"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

const (
	// self is this program, even if its file was moved or removed.
	self = "/proc/self/exe"
	// victimScore makes the kernel end a command, not the box, when memory runs out (proc(5), oom_score_adj).
	victimScore = "500"
)

// host starts the commands of a box as its children. It implements command.Host.
type host struct{ *Box }

var _ command.Host = host{}

// Acquire implements command.Host.
func (h host) Acquire() error { return h.acquire() }

// Release implements command.Host.
func (h host) Release() { h.release() }

// Note implements command.Host.
func (h host) Note(err error) { h.note(err) }

// Plan implements command.Host.
func (h host) Plan(r *wire.Command) (command.Start, error) {
	who, err := findUser(cmp.Or(r.User, h.config.User))
	if err != nil {
		return command.Start{}, err
	}
	dir := cmp.Or(r.Workdir, h.config.Workdir, "/")
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return command.Start{}, core.Errorf(core.KindNotFound, "exec", dir, "the working directory does not exist")
	}
	return command.Start{Argv: r.Argv, Env: h.environment(who.Home, r.Env, r.Secrets), Dir: dir, User: who}, nil
}

// environment returns the image's variables, then the sandbox's, then those of layers.
func (b *Box) environment(home string, layers ...map[string]string) []string {
	return command.Environment(b.env, home, append([]map[string]string{b.config.Spec.Env, b.config.Secrets}, layers...)...)
}

// findUser returns a user from the sandbox's own files, which the sandbox may change. A uid without an entry is in the
// group root, as in engines.
func findUser(text string) (command.User, error) {
	var users command.Users
	for path, parse := range map[string]func(io.Reader) error{
		"/etc/passwd": func(r io.Reader) (err error) { users.List, err = command.ParsePasswd(r); return err },
		"/etc/group":  func(r io.Reader) (err error) { users.Groups, err = command.ParseGroup(r); return err },
	} {
		if f, err := os.Open(path); err == nil {
			_ = parse(f) // an unreadable file has no entries
			_ = f.Close()
		}
	}
	return users.Find(text, func(uint32) uint32 { return 0 })
}

// Start implements command.Host.
func (h host) Start(start command.Start) (command.Process, error) {
	file := self
	if !start.Terminal {
		var err error
		if file, err = program.Find(start.Argv[0], command.PathOf(start.Env), start.Dir); err != nil {
			return nil, notStarted(start, err)
		}
	}
	files := make([]uintptr, len(start.Files))
	for i, f := range start.Files {
		if f == nil {
			nothing, err := os.Open(os.DevNull)
			if err != nil {
				return nil, notStarted(start, err)
			}
			defer func() { _ = nothing.Close() }()
			f = nothing
		}
		files[i] = f.Fd()
	}
	kills := h.memoryKills()
	pid, ended, err := h.reaper.start(file, start.Argv, &syscall.ProcAttr{
		Dir: start.Dir, Env: start.Env, Files: files, Sys: attributes(start.User),
	})
	if err != nil {
		return nil, notStarted(start, err)
	}
	if h.config.Spec.Memory > 0 {
		// A command that has ended already has no score.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(victimScore), 0)
	}
	return process{h.Box, pid, ended, kills}, nil
}

// attributes returns the attributes of a process in a new session with the user's rights.
func attributes(who command.User) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Setsid: true, Credential: &syscall.Credential{Uid: who.UID, Gid: who.GID, Groups: who.Groups},
	}
}

// notStarted returns the failure to start a program: the program's own, or the sandbox's.
func notStarted(start command.Start, cause error) error {
	errno, ok := errors.AsType[syscall.Errno](cause)
	switch {
	case ok && (errno == unix.ENOENT || errno == unix.ENOTDIR):
		return program.ErrNotFound
	case ok && unrunnable(errno):
		return program.ErrNotExecutable
	}
	kind := guest.KindOf(cause)
	if kind == core.KindInternal {
		kind = core.KindExhausted
	}
	return core.Errorf(kind, "exec", start.Argv[0], "it cannot be started: %w", cause)
}

// unrunnable reports whether the failure is the program's.
func unrunnable(errno syscall.Errno) bool {
	switch errno {
	case unix.EACCES, unix.ENOEXEC, unix.ELOOP, unix.ENAMETOOLONG, unix.EPERM, unix.EISDIR, unix.ELIBBAD:
		return true
	}
	return false
}

// process is a child of the box. It implements command.Process.
type process struct {
	b     *Box
	pid   int
	ended <-chan syscall.WaitStatus
	// kills is memoryKills at the start.
	kills int
}

// Wait implements command.Process.
func (p process) Wait() core.Exit {
	status := <-p.ended
	if status.Signaled() {
		return core.Exit{Code: 128 + int(status.Signal()), Signal: int(status.Signal())}
	}
	return core.Exit{Code: status.ExitStatus()}
}

// Signal implements command.Process.
func (p process) Signal(number syscall.Signal) error { return p.b.reaper.signal(p.pid, number) }

// Explain implements command.Process.
func (p process) Explain(exit *core.Exit) { p.b.explain(exit, p.kills) }
