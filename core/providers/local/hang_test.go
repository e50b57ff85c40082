//go:build linux

package local

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

func TestHungSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	p, sb := crashed(t, nil)
	if err := syscall.Kill(supervisorPID(t, p, sb.ID), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(t.Context(), sb.ID); !errors.Is(err, core.KindNotFound) {
		t.Errorf("afterwards: %v", err)
	}
}

// A compromised supervisor hangs and reports the pid of another process. That process keeps running.
func TestForgedSupervisorIsNotKilled(t *testing.T) {
	t.Parallel()
	p, sb := crashed(t, nil)
	bystander := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	pid := supervisorPID(t, p, sb.ID)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	state, err := p.store.ReadState(sb.ID)
	if err != nil {
		t.Fatal(err)
	}
	state.PID = bystander.Process.Pid
	state.PIDStart, _ = core.ProcessStart(state.PID)
	if err := store.WriteState(p.store.Dir(sb.ID), state, false); err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if started, alive := core.ProcessStart(bystander.Process.Pid); !alive || started != state.PIDStart {
		t.Error("another process was killed")
	}
	if _, alive := core.ProcessStart(pid); alive {
		t.Error("the supervisor is still there")
	}
}
