//go:build linux

package supervisor

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/command"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/program"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/engine"
)

// host starts the commands of a sandbox through gVisor. It implements command.Host.
type host struct{ *Supervisor }

var _ command.Host = host{}

// Acquire implements command.Host. It wakes a frozen sandbox.
func (h host) Acquire() error { return h.acquire() }

// Release implements command.Host.
func (h host) Release() { h.release() }

// Note implements command.Host.
func (h host) Note(err error) { h.log.Error("a command could not be journaled", "error", err) }

// Plan implements command.Host.
func (h host) Plan(r *wire.Command) (command.Start, error) {
	dir := cmp.Or(r.Workdir, h.launch.Spec.Workdir)
	if dir == "" && h.launch.Root != nil {
		dir = h.launch.Root.Workdir
	}
	who, err := h.user(cmp.Or(r.User, h.defaultUser()))
	return command.Start{
		Argv: r.Argv, Env: h.environment(who.Home, h.launch.Spec.Env, h.launch.Secrets, r.Env, r.Secrets),
		Dir: dir, User: who,
	}, err
}

// environment returns the variables of a process: those of the image, overridden by layers. It contains no variables of
// the host. Only commands have a layer of secrets: the other processes do not need them, and are stored in checkpoints.
func (s *Supervisor) environment(home string, layers ...map[string]string) []string {
	if s.launch.Root == nil {
		return command.Environment([]string{"LANG=C.UTF-8"}, home, s.withRegistry(layers)...)
	}
	image := map[string]string{}
	for _, variable := range s.launch.Root.Env {
		if name, value, ok := strings.Cut(variable, "="); ok && name != "" {
			image[name] = value
		}
	}
	return command.Environment(nil, home, s.withRegistry(append([]map[string]string{image}, layers...))...)
}

// npmRegistry is the variable with npm's package registry. npm takes it in any case of the letters.
const npmRegistry = "npm_config_registry"

// withRegistry returns the layers of variables with the package registry of the configuration, unless one sets it.
func (s *Supervisor) withRegistry(layers []map[string]string) []map[string]string {
	if s.launch.NPMRegistry == "" {
		return layers
	}
	for _, layer := range layers {
		for name := range layer {
			if strings.EqualFold(name, npmRegistry) {
				return layers
			}
		}
	}
	return append(layers, map[string]string{npmRegistry: s.launch.NPMRegistry})
}

// Start implements command.Host. A kept command becomes a child of the sandbox's first process.
func (h host) Start(start command.Start) (command.Process, error) {
	dir := cmp.Or(start.Dir, "/")
	if start.Kept {
		inside, err := h.box.Spawn(context.Background(), guest.Spawn{
			ID: start.ID, Argv: start.Argv, Env: start.Env, Dir: dir,
			UID: start.User.UID, GID: start.User.GID, Groups: start.User.Groups,
		}, start.Files[1], start.Files[2])
		if err != nil {
			return nil, h.whyNotBegun(err)
		}
		return process{h.Supervisor, inside}, nil
	}
	if start.Terminal {
		start.Argv[0] = engine.GuestPath
	}
	inside, err := h.box.Exec(context.Background(), engine.Command{
		Argv: start.Argv, Env: start.Env, Dir: dir, UID: start.User.UID, GID: start.User.GID, Groups: start.User.Groups,
		Files: start.Files,
	})
	if err != nil {
		return nil, h.whyNotBegun(err)
	}
	return process{h.Supervisor, inside}, nil
}

// whyNotBegun returns the reason for a failed start of a command: its program, the end of the sandbox, or another
// error.
func (s *Supervisor) whyNotBegun(err error) error {
	if errors.Is(err, program.ErrNotFound) || errors.Is(err, program.ErrNotExecutable) {
		return err
	}
	if _, known := errors.AsType[*core.Error](err); !known && s.hasEnded() {
		return core.Errorf(core.KindConflict, "local.exec", s.launch.Spec.Name,
			"the sandbox ended before the command began: %s", s.whyEnded().message)
	}
	return classifyExec(err)
}

// process is a process in the sandbox's kernel. It implements command.Process.
type process struct {
	s      *Supervisor
	inside interface {
		Wait() (engine.Exit, error)
		Signal(number syscall.Signal) error
		SignalGroup(number syscall.Signal) error
	}
}

// Wait implements command.Process.
func (p process) Wait() core.Exit {
	status, err := p.inside.Wait()
	switch {
	case err != nil:
		why := p.s.whyEnded()
		return core.Exit{Code: 137, Signal: int(unix.SIGKILL), Reason: why.reason, Message: why.message}
	case status.Signal != 0:
		return core.Exit{Code: 128 + int(status.Signal), Signal: int(status.Signal)}
	}
	return core.Exit{Code: status.Code}
}

// Signal implements command.Process. A process that has ended is no error.
func (p process) Signal(number syscall.Signal) error {
	if err := p.inside.SignalGroup(number); err != nil {
		return p.inside.Signal(number)
	}
	return nil
}

// Explain implements command.Process. A limit that ends a command here ends the sandbox.
func (p process) Explain(*core.Exit) {}

// whyEnded returns the reason for the sandbox's end, as far as it is known.
func (s *Supervisor) whyEnded() end {
	select {
	case why := <-s.ending:
		s.finish(why)
		return why
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why.reason != "" {
		return s.why
	}
	return s.crash()
}
