//go:build linux

package engine

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/container"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/program"
)

// Process is a started program in the sandbox.
type Process struct {
	box *Box
	pid int32
}

// Exec starts a program. The error wraps program.ErrNotFound or program.ErrNotExecutable if that is the reason. It is a
// *core.Error of KindNotFound if the working directory does not exist.
func (b *Box) Exec(ctx context.Context, c Command) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	files := make(map[int]*os.File, len(c.Files))
	for fd, f := range c.Files {
		files[fd] = f
	}
	groups := make([]auth.KGID, len(c.Groups))
	for i, g := range c.Groups {
		groups[i] = auth.KGID(g)
	}
	args := &control.ExecArgs{
		Argv: c.Argv, Envv: c.Env, WorkingDirectory: c.Dir,
		KUID: auth.KUID(c.UID), KGID: auth.KGID(c.GID), ExtraKGIDs: groups,
		Capabilities: execCapabilities(c),
		FilePayload:  control.NewFilePayload(files, c.Program),
	}
	process := &Process{box: b}
	err := b.call(func(inside *container.Container) (err error) {
		process.pid, err = inside.Execute(b.runtime, args)
		return err
	})
	if err != nil {
		return nil, b.whyNotStarted(ctx, c, err)
	}
	return process, nil
}

// execCapabilities returns the sandbox's capabilities for root, and none for other users.
func execCapabilities(c Command) *auth.TaskCapabilities {
	var set auth.CapabilitySet
	for _, one := range []linux.Capability{
		linux.CAP_AUDIT_WRITE, linux.CAP_CHOWN, linux.CAP_DAC_OVERRIDE, linux.CAP_FOWNER, linux.CAP_FSETID, linux.CAP_KILL,
		linux.CAP_MKNOD,
		linux.CAP_NET_BIND_SERVICE, linux.CAP_NET_RAW, linux.CAP_SETFCAP, linux.CAP_SETGID, linux.CAP_SETPCAP,
		linux.CAP_SETUID, linux.CAP_SYS_CHROOT,
	} {
		set |= auth.CapabilitySetOf(one)
	}
	if c.admin {
		set |= auth.CapabilitySetOf(linux.CAP_SYS_ADMIN)
	}
	if c.Hidden {
		set |= auth.CapabilitySetOf(helperMark)
	}
	caps := &auth.TaskCapabilities{BoundingCaps: set}
	if c.UID == 0 {
		caps.PermittedCaps, caps.EffectiveCaps = set, set
	}
	return caps
}

// whyNotStarted looks for the program as the sandbox's kernel did, because the kernel returns only an error's text.
func (b *Box) whyNotStarted(ctx context.Context, c Command, cause error) error {
	select {
	case <-b.done:
		return cause
	default:
	}
	if c.Program != nil || len(c.Argv) == 0 {
		return cause
	}
	if err := b.checkDir(ctx, c.Dir); err != nil {
		return err
	}
	found := false
	for _, candidate := range candidates(c) {
		mode, there, err := b.mode(ctx, candidate)
		if err != nil {
			return cause // no program can be started, as in an ending sandbox
		}
		found = found || there
		if there && mode.IsRegular() && mode&0o111 != 0 {
			break
		}
	}
	if found {
		return fmt.Errorf("%s: %w: %w", c.Argv[0], program.ErrNotExecutable, cause)
	}
	return fmt.Errorf("%s: %w", c.Argv[0], program.ErrNotFound)
}

// checkDir returns an error if a program's working directory does not exist.
func (b *Box) checkDir(ctx context.Context, dir string) error {
	if dir == "/" {
		return nil
	}
	if mode, there, err := b.mode(ctx, dir); err == nil && (!there || mode.IsRegular()) {
		return core.Errorf(core.KindNotFound, "exec", dir, "the working directory does not exist")
	}
	return nil
}

func candidates(c Command) []string {
	name := c.Argv[0]
	if strings.Contains(name, "/") {
		return []string{path.Join("/", c.Dir, name), name}
	}
	var found []string
	for _, entry := range c.Env {
		if dirs, ok := strings.CutPrefix(entry, "PATH="); ok {
			for dir := range strings.SplitSeq(dirs, ":") {
				found = append(found, path.Join("/", dir, name))
			}
		}
	}
	return found
}

// statTimeout is how long sb-guest may take to describe a file.
const statTimeout = 10 * time.Second

// mode runs sb-guest inside to get a file's mode. there reports whether the file exists.
func (b *Box) mode(ctx context.Context, name string) (mode os.FileMode, there bool, err error) {
	name = path.Clean(name)
	if !path.IsAbs(name) {
		return 0, false, nil
	}
	argv, err := guest.Request{Op: guest.OpStat, Path: []byte(name)}.Argv()
	if err != nil {
		return 0, false, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = null.Close() }()
	out, in, err := os.Pipe()
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = out.Close() }()
	process, err := b.Exec(
		ctx, Command{Argv: argv, Dir: "/", Files: []*os.File{null, in, null}, Program: b.guest, Hidden: true},
	)
	_ = in.Close()
	if err != nil {
		return 0, false, err
	}
	// Processes of root inside can stop the helper.
	_ = out.SetReadDeadline(time.Now().Add(statTimeout))
	info, readErr := guest.DecodeStat(out, name)
	if readErr != nil {
		_ = process.Signal(syscall.SIGKILL)
	}
	exit, err := process.Wait()
	if err != nil || exit.Code != 0 || readErr != nil {
		return 0, false, err
	}
	return info.Mode, true, nil
}

// Guest returns the helper program, for Command.Program.
func (b *Box) Guest() *os.File { return b.guest }

// PID returns the process's id in the sandbox.
func (p *Process) PID() int { return int(p.pid) }

// Wait blocks until the process has ended. It may be called once. It returns an error if the sandbox ends first.
func (p *Process) Wait() (Exit, error) {
	var status unix.WaitStatus
	err := p.box.call(func(c *container.Container) (err error) {
		status, err = c.WaitPID(p.pid)
		return err
	})
	if err != nil {
		return Exit{}, err
	}
	if status.Signaled() {
		return Exit{Signal: status.Signal()}, nil
	}
	return Exit{Code: status.ExitStatus()}, nil
}

// Signal sends a signal to the process. It returns no error for a process that has ended.
func (p *Process) Signal(signal syscall.Signal) error {
	return p.box.signalProcess(signal, p.pid)
}

// SignalGroup sends a signal to the process's group.
func (p *Process) SignalGroup(signal syscall.Signal) error {
	return p.box.signalGroup(signal, p.pid)
}

func (b *Box) signalProcess(signal syscall.Signal, pid int32) error {
	return b.call(func(c *container.Container) error { return c.SignalProcess(signal, pid) })
}

func (b *Box) signalGroup(signal syscall.Signal, pid int32) error {
	return b.call(func(c *container.Container) error { return c.SignalProcessGroup(signal, pid) })
}

// ReadFile writes a file's content to w, a pipe or socket, without starting a process inside. It opens the file with
// the rights of root inside.
func (b *Box) ReadFile(name string, w *os.File) error {
	return b.call(func(c *container.Container) error {
		conn, err := client.ConnectTo(c.Sandbox.GetControlSocketPath())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return conn.Call(
			"Fs.Cat", &control.CatOpts{Files: []string{name}, FilePayload: urpc.FilePayload{Files: []*os.File{w}}}, nil,
		)
	})
}

// SignalAll sends a signal to every process inside except for the first one. The signal could end the first process if
// that has just started.
func (b *Box) SignalAll(signal syscall.Signal) error {
	return b.call(func(c *container.Container) error {
		processes, err := c.Processes()
		if err != nil {
			return err
		}
		for _, p := range processes {
			if p.PID != 1 {
				_ = c.SignalProcess(signal, int32(p.PID)) // it may have ended by now
			}
		}
		return nil
	})
}
