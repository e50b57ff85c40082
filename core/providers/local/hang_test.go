//go:build linux

package local

import (
	"errors"
	"syscall"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

func TestHungSupervisorIsKilled(t *testing.T) {
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
