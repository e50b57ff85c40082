//go:build linux

package local

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// grouped launches a sandbox that has a control group.
func grouped(t *testing.T) (*Provider, core.Sandbox, cgroup.Group) {
	t.Helper()
	if f := groupFinding(); f.Status != statusOK {
		t.Skip(f.Detail)
	}
	p, sb := crashed(t, func(s *core.Spec) { s.CPU, s.Memory, s.Processes = 0.5, 256*core.MiB, 200 })
	var group cgroup.Group
	if _, err := store.ReadJSON(filepath.Join(p.store.Dir(sb.ID), store.GroupFile), &group); err != nil {
		t.Fatal(err)
	}
	return p, sb, group
}

func members(t *testing.T, group cgroup.Group) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range group.Dirs {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return "\n" + all.String()
}

func gone(t *testing.T, group cgroup.Group) {
	t.Helper()
	for _, dir := range group.Dirs {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
}

func TestControlGroup(t *testing.T) {
	p, sb, group := grouped(t)
	supervisor := supervisorPID(t, p, sb.ID)
	sentry := sentryPID(t, supervisor)
	if !strings.Contains(members(t, group), "\n"+strconv.Itoa(sentry)+"\n") {
		t.Errorf("the sentry, %d, is not in its control group", sentry)
	}
	within(t, "the supervisor is outside of the group", func() bool {
		return !strings.Contains(members(t, group), "\n"+strconv.Itoa(supervisor)+"\n")
	})
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	gone(t, group)
}

func TestControlGroupOfAKilledSupervisor(t *testing.T) {
	p, sb, group := grouped(t)
	pid := supervisorPID(t, p, sb.ID)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, "the sandbox is lost", func() bool { return !p.store.Locked(sb.ID) })
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	gone(t, group)
}
