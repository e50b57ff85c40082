package commands

import (
	"context"
	"slices"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// waitStub is a stub. Its sandboxes end at once, in the state of ended.
type waitStub struct {
	*stub
	ended core.Sandbox
	err   error
}

func (s *waitStub) Capabilities() core.Capabilities {
	caps := s.stub.Capabilities()
	caps.Has = append(slices.Clone(caps.Has), core.CapWait)
	return caps
}

func (s *waitStub) WaitSandbox(_ context.Context, id string) (core.Sandbox, error) {
	ended := s.ended
	ended.ID, ended.Name = id, "one"
	return ended, s.err
}

// The reason of the end determines the exit code, with or without a code of the entry command.
func TestWaitExitCodes(t *testing.T) {
	three, killed := 3, 137
	for _, tt := range []struct {
		name   string
		ended  core.Sandbox
		err    error
		code   int
		stderr string
	}{
		{
			name: "command", ended: core.Sandbox{State: core.StateExited, Reason: core.ReasonCommand, ExitCode: &three}, code: 3,
		},
		{
			name: "lifetime", ended: core.Sandbox{
				State: core.StateExited, Reason: core.ReasonTimeout, Message: "its lifetime expired",
			},
			code: 124, stderr: "sb: one: the sandbox ended: its lifetime expired\n",
		},
		{
			name: "lifetime under an entry command", ended: core.Sandbox{
				State: core.StateExited, Reason: core.ReasonTimeout, Message: "its lifetime expired", ExitCode: &killed,
			},
			code: 124, stderr: "sb: one: the sandbox ended: its lifetime expired\n",
		},
		{
			name:  "lifetime of a persistent sandbox",
			ended: core.Sandbox{State: core.StateStopped, Reason: core.ReasonTimeout, Message: "its lifetime expired"},
			code:  124, stderr: "sb: one: the sandbox ended: its lifetime expired\n",
		},
		{
			name: "idle time", ended: core.Sandbox{
				State: core.StateExited, Reason: core.ReasonIdle, Message: "nothing ran in it for 5m",
			},
			code: 124, stderr: "sb: one: the sandbox ended: nothing ran in it for 5m\n",
		},
		{
			name: "memory", ended: core.Sandbox{
				State: core.StateFailed, Reason: core.ReasonMemory, Message: "memory use is over the limit",
			},
			code: 137, stderr: "sb: one: the sandbox ended: memory use is over the limit\n",
		},
		{
			name:  "terminated, seen",
			ended: core.Sandbox{State: core.StateExited, Reason: core.ReasonStopped, Message: "it was terminated"},
			code:  137, stderr: "sb: one: the sandbox was terminated\n",
		},
		{
			name:  "terminated with a code",
			ended: core.Sandbox{State: core.StateExited, Reason: core.ReasonStopped, ExitCode: &three},
			code:  137, stderr: "sb: one: the sandbox was terminated\n",
		},
		{
			name: "terminated, gone", err: core.Errorf(core.KindNotFound, "wait", "stb-1", "there is no sandbox"),
			code: 137, stderr: "sb: one: the sandbox was terminated\n",
		},
		{name: "stopped", ended: core.Sandbox{State: core.StateStopped, Reason: core.ReasonStopped}},
		{
			name:  "stopped with a code",
			ended: core.Sandbox{State: core.StateStopped, Reason: core.ReasonStopped, ExitCode: &three}, code: 3,
		},
		{
			name: "crash", ended: core.Sandbox{
				State: core.StateLost, Reason: core.ReasonSupervisor, Message: "its supervisor was killed", ExitCode: &three,
			},
			code: 125, stderr: "sb: one: the sandbox is lost (supervisor): its supervisor was killed\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			provider := &waitStub{
				stub: &stub{boxes: map[string]core.Sandbox{}, leases: map[string]core.Lease{}}, ended: tt.ended, err: tt.err,
			}
			app, streams := appOver(t, provider, "one")
			if code := execute(t.Context(), app, []string{"wait", "one"}); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if got := streams.Err.String(); got != tt.stderr {
				t.Errorf("stderr is %q, want %q", got, tt.stderr)
			}
		})
	}
}
