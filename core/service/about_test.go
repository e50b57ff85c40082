package service

import (
	"errors"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

func TestErrorsNameTheSandboxAsTyped(t *testing.T) {
	t.Parallel()
	sb := core.Sandbox{ID: "loc-abcdefgh", Provider: "local", Name: "dev"}
	paused := core.Errorf(core.KindConflict, "exec", sb.ID, "the sandbox is paused")
	if err := about("exec", "dev", sb, paused); err.Error() != "dev: the sandbox is paused" ||
		!errors.Is(err, core.KindConflict) {
		t.Errorf("an error of the sandbox is %v", err)
	}
	if err := about("exec", sb.Ref(), sb, paused); err.Error() != "dev: the sandbox is paused" {
		t.Errorf("by its full reference it is %v", err)
	}
	if paused.Subject != sb.ID {
		t.Error("the provider's error was changed")
	}
	file := core.Errorf(core.KindNotFound, "stat", "/tmp/x", "no such file")
	if err := about("stat", "dev", sb, file); err.Error() != "/tmp/x: no such file" {
		t.Errorf("an error of a file is %v", err)
	}
	if err := about("exec", "dev", sb, nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	missing := core.Errorf(core.KindNotFound, "attach", "9", "the sandbox has no command %q", "9")
	err := aboutExec("attach", "dev", sb, "9", missing)
	if err.Error() != `sandbox dev has no command "9"` || core.HintOf(err) != "sb ps dev lists them" {
		t.Errorf("a missing command is %v (%s)", err, core.HintOf(err))
	}
}
