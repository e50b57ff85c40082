//go:build linux

package local

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// grouped launches a sandbox that has a control group.
func grouped(t *testing.T) (*Provider, core.Sandbox, cgroup.Group) {
	t.Helper()
	if f := groupFinding("sb-test-" + strconv.Itoa(os.Getpid())); f.Status != statusOK {
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

// A forged record of the control group is ignored. Nothing at that place is killed or removed, and the sandbox's own
// group is removed.
func TestForgedControlGroupIsRefused(t *testing.T) {
	p, sb, group := grouped(t)
	bystander := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	// A directory that looks like a group, with a directory and a file that the removal of a group would remove.
	fake := filepath.Join(t.TempDir(), filepath.Base(group.Dirs[0]))
	empty, file := filepath.Join(t.TempDir(), "x-"+sb.ID), filepath.Join(t.TempDir(), "y-"+sb.ID)
	if err := errors.Join(os.Mkdir(fake, 0o700), os.Mkdir(empty, 0o700), os.WriteFile(file, nil, 0o600),
		os.WriteFile(filepath.Join(fake, "cgroup.procs"), []byte(strconv.Itoa(bystander.Process.Pid)), 0o600)); err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(p.store.Dir(sb.ID), store.GroupFile)
	if err := syscall.Kill(supervisorPID(t, p, sb.ID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, "the sandbox is lost", func() bool { return !p.store.Locked(sb.ID) })
	for _, dir := range []string{fake, empty, file, filepath.Dir(group.Dirs[0]), "../" + filepath.Base(group.Dirs[0])} {
		if err := store.WriteJSON(record, cgroup.Group{Version: group.Version, Dirs: []string{dir}}, false); err != nil {
			t.Fatal(err)
		}
		if found, err := p.groupOf(sb.ID); err != nil || !slices.Equal(found.Dirs, group.Dirs) {
			t.Errorf("%s: %+v, %v", dir, found, err)
		}
	}
	if !slices.ContainsFunc(p.Diagnose(t.Context()), func(f core.Finding) bool {
		return strings.Contains(f.Detail, record)
	}) {
		t.Error("doctor does not name the record")
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	gone(t, group)
	for _, path := range []string{fake, empty, file} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	if _, alive := core.ProcessStart(bystander.Process.Pid); !alive {
		t.Error("a process that is not the sandbox's was killed")
	}
}

// prune removes a group whose sandbox has no record, if the group is empty and old enough.
func TestControlGroupWithoutASandbox(t *testing.T) {
	p, sb, group := grouped(t)
	left := func() (dirs []string) {
		t.Helper()
		leftovers, err := p.Leftovers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leftovers {
			if slices.Contains(group.Dirs, l.Subject) {
				dirs = append(dirs, l.Subject)
			}
		}
		return dirs
	}
	old := time.Now().Add(-2 * groupAge)
	age := func() {
		t.Helper()
		for _, dir := range group.Dirs {
			if err := os.Chtimes(dir, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	age()
	if dirs := left(); len(dirs) > 0 {
		t.Errorf("of a sandbox that runs: %q", dirs)
	}
	if err := syscall.Kill(supervisorPID(t, p, sb.ID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, "its processes end", func() bool { return len(boxProcesses(t, p, sb.ID)) == 0 })
	if dirs := left(); len(dirs) > 0 {
		t.Errorf("of a sandbox that has a record: %q", dirs)
	}
	if err := os.RemoveAll(p.store.Dir(sb.ID)); err != nil {
		t.Fatal(err)
	}
	// The kernel counts a process as a member for a moment after its end.
	within(t, "all groups are left over", func() bool { return len(left()) == len(group.Dirs) })
	for _, dir := range left() {
		if err := p.Sweep(t.Context(), core.Leftover{Subject: dir}); err != nil {
			t.Error(err)
		}
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
