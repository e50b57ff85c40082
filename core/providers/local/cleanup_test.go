//go:build linux

package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// boxProcesses returns the processes of a sandbox without its supervisor.
func boxProcesses(t *testing.T, p *Provider, id string) []int {
	t.Helper()
	group, err := p.groupOf(id)
	if err != nil {
		t.Fatal(err)
	}
	found, err := processesOf(id, group)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// bounded sets a limit, so that the sandbox has a control group if the machine allows one.
func bounded(spec *core.Spec) { spec.Memory = 512 * core.MiB }

// The processes of a frozen sandbox end with its supervisor, before any client looks.
func TestIdleSandboxEndsWithItsSupervisor(t *testing.T) {
	t.Parallel()
	p, ok := opener(t, nil)(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	for range 6 { // a suspended gofer stayed about every second time
		sb := launched(t, p, bounded)
		within(t, "it freezes", func() bool {
			got, err := p.Get(t.Context(), sb.ID)
			return err == nil && got.Frozen
		})
		if len(boxProcesses(t, p, sb.ID)) < 2 {
			t.Fatal("its processes are not found")
		}
		if err := syscall.Kill(supervisorPID(t, p, sb.ID), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		within(t, "its processes end", func() bool { return len(boxProcesses(t, p, sb.ID)) == 0 })
	}
}

// The next operation on a sandbox with a killed supervisor ends its remaining processes.
func TestLeftoversOfKilledSupervisor(t *testing.T) {
	for name, next := range map[string]func(*testing.T, *Provider, core.Sandbox){
		"terminate": func(t *testing.T, p *Provider, sb core.Sandbox) {
			t.Helper()
			if err := p.Terminate(t.Context(), sb.ID); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(p.store.Dir(sb.ID)); !os.IsNotExist(err) {
				t.Errorf("its directory: %v", err)
			}
		},
		"start": func(t *testing.T, p *Provider, sb core.Sandbox) {
			t.Helper()
			if _, err := p.Start(t.Context(), sb.ID); err != nil {
				t.Error(err)
			}
			if info, err := p.Stat(t.Context(), sb.ID, "/root/saved"); err != nil || info.Size != 1 {
				t.Errorf("the saved file is %+v, %v", info, err)
			}
		},
		"prune": func(t *testing.T, p *Provider, sb core.Sandbox) {
			t.Helper()
			leftovers, err := p.Leftovers(t.Context())
			if err != nil {
				t.Error(err)
			}
			for _, l := range leftovers {
				if err := p.Sweep(t.Context(), l); err != nil {
					t.Error(err)
				}
			}
			if left, err := p.Leftovers(t.Context()); err != nil || len(leftovers) == 0 || len(left) != 0 {
				t.Errorf("left over are %+v, then %+v, %v", leftovers, left, err)
			}
			if stopped, err := p.Get(t.Context(), sb.ID); err != nil || stopped.State != core.StateStopped {
				t.Errorf("it is %+v, %v", stopped, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, sb := crashed(t, func(spec *core.Spec) { bounded(spec); spec.Persist = true })
			if err := p.WriteFile(t.Context(), sb.ID, "/root/saved", strings.NewReader("1"), core.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := p.Stop(t.Context(), sb.ID, time.Second); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Start(t.Context(), sb.ID); err != nil {
				t.Fatal(err)
			}
			// A gofer that is suspended and does not end with its parent.
			gofer := exec.CommandContext(t.Context(), "sh")
			gofer.Args = []string{"runsc-gofer", "-c", "kill -STOP $$", sb.ID}
			if err := gofer.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { defer close(ended); _ = gofer.Wait() }()
			t.Cleanup(func() { _ = gofer.Process.Kill(); <-ended })
			group, err := p.groupOf(sb.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range group.Dirs {
				if _, err := os.Stat(dir); err != nil {
					continue
				}
				if err := os.WriteFile(
					filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(gofer.Process.Pid)), 0o600,
				); err != nil {
					t.Fatal(err)
				}
			}
			if err := syscall.Kill(supervisorPID(t, p, sb.ID), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			within(t, "the supervisor is gone", func() bool { return !p.store.Locked(sb.ID) })
			next(t, p, sb)
			select {
			case <-ended:
			case <-time.After(30 * time.Second):
				t.Fatal("the gofer is still there")
			}
			if name == "start" {
				return
			}
			if left := boxProcesses(t, p, sb.ID); len(left) != 0 {
				t.Errorf("processes %v are left", left)
			}
			for _, dir := range group.Dirs {
				if _, err := os.Stat(dir); !os.IsNotExist(err) {
					t.Errorf("%s: %v", dir, err)
				}
			}
		})
	}
}

// A sandbox that cannot be removed keeps its record.
func TestFailedTerminateKeepsRecord(t *testing.T) {
	p, sb := crashed(t, bounded)
	group, err := p.groupOf(sb.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(group.Dirs) == 0 {
		t.Skip("this user cannot make control groups")
	}
	inner := filepath.Join(group.Dirs[0], "inner") // a group that has groups in it cannot be removed
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Skip("this user cannot make control groups: ", err)
	}
	defer func() { _ = os.Remove(inner) }()
	if err := p.Terminate(t.Context(), sb.ID); !errors.Is(err, core.KindUnavailable) ||
		!strings.Contains(err.Error(), group.Dirs[0]) {
		t.Errorf("terminate: %v", err)
	}
	if found, err := p.FindName(t.Context(), sb.Name); err != nil || found.ID != sb.ID {
		t.Errorf("by its name: %+v, %v", found, err)
	}
	if err := os.Remove(inner); err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(context.WithoutCancel(t.Context()), sb.ID); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(group.Dirs[0]); !os.IsNotExist(err) {
		t.Errorf("the control group: %v", err)
	}
}
