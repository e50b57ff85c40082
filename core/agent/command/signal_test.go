//go:build linux

package command_test

import (
	"syscall"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/command"
)

func TestStopSignal(t *testing.T) {
	entry := core.Spec{Command: []string{"serve"}}
	for name, want := range map[string]syscall.Signal{
		"": syscall.SIGTERM, "SIGQUIT": syscall.SIGQUIT, "quit": syscall.SIGQUIT, "3": syscall.SIGQUIT,
		"28":         syscall.SIGWINCH,
		"SIGRTMIN+3": 37, "SIGRTMIN": 34, "RTMIN+30": 64, "SIGRTMIN+31": syscall.SIGTERM, "SIGRTMIN+x": syscall.SIGTERM,
		"0": syscall.SIGTERM, "65": syscall.SIGTERM, "-1": syscall.SIGTERM, "SIG": syscall.SIGTERM, "9": syscall.SIGTERM,
		"SIGSTOP": syscall.SIGTERM, "no signal\x00": syscall.SIGTERM, "SIGRTMIN+300": syscall.SIGTERM,
	} {
		if got := command.StopSignal(entry, name); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
		if got := command.StopSignal(core.Spec{}, name); got != syscall.SIGTERM {
			t.Errorf("%q without an entry command: %d", name, got)
		}
	}
}
