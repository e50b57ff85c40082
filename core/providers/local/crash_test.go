//go:build linux

package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
	"github.com/seed-0724f904/sb/core/providertest"
)

// crashed launches a sandbox whose supervisor and sentry a test may kill.
func crashed(t *testing.T, change func(*core.Spec)) (*Provider, core.Sandbox) {
	t.Helper()
	p, ok := opener(t, nil)(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	return p, launched(t, p, change)
}

// launched launches a sandbox that ends with the test.
func launched(t *testing.T, p *Provider, change func(*core.Spec)) core.Sandbox {
	t.Helper()
	spec := core.Spec{Name: core.NewName(), Image: HostImage, Network: core.Network{Mode: core.NetworkNone}}
	if change != nil {
		change(&spec)
	}
	sb, err := p.Launch(t.Context(), spec, core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Terminate(context.WithoutCancel(t.Context()), sb.ID); err != nil && !errors.Is(err, core.KindNotFound) {
			t.Error(err)
		}
	})
	return sb
}

// supervisorPID returns the process id in the sandbox's state. The process is alive and a child of the test.
func supervisorPID(t *testing.T, p *Provider, id string) int {
	t.Helper()
	state, err := p.store.ReadState(id)
	if err != nil {
		t.Fatal(err)
	}
	if state.PID <= 1 || !p.store.Locked(id) {
		t.Fatalf("process %d does not supervise %s", state.PID, id)
	}
	return state.PID
}

// sentryPID finds the supervisor's child that is the sandbox's kernel.
func sentryPID(t *testing.T, supervisor int) int {
	t.Helper()
	return childPID(t, supervisor, "runsc-sandbox")
}

// childPID finds the supervisor's child of that name.
func childPID(t *testing.T, supervisor int, program string) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		cmdline, err := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		if err != nil || !strings.HasPrefix(string(cmdline), program) {
			continue
		}
		stat, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if fields[1] == strconv.Itoa(supervisor) {
			return atoi(t, filepath.Base(filepath.Dir(name)))
		}
	}
	t.Fatalf("process %d has no %s", supervisor, program)
	return 0
}

func TestKilledSupervisor(t *testing.T) {
	p, sb := crashed(t, nil)
	pid := supervisorPID(t, p, sb.ID)
	sentry := sentryPID(t, pid)
	process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Wait(providertest.Patient(t)); !errors.Is(err, core.KindConflict) {
		t.Errorf("the command's caller learns %v", err)
	}
	lost, err := p.WaitSandbox(providertest.Patient(t), sb.ID)
	if err != nil || lost.State != core.StateLost || lost.Reason != core.ReasonSupervisor {
		t.Errorf("it is %+v, %v", lost, err)
	}
	within(t, "the sentry is gone, too", func() bool { _, alive := core.ProcessStart(sentry); return !alive })
	execs, err := p.Execs(t.Context(), sb.ID)
	if err != nil || len(execs) != 1 || execs[0].Exit == nil || execs[0].Exit.Code != 137 {
		t.Errorf("the journal is %+v, %v", execs, err)
	}
	leftovers, err := p.Leftovers(t.Context())
	if err != nil || len(leftovers) == 0 {
		t.Errorf("leftovers are %+v, %v", leftovers, err)
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if leftovers, err := p.Leftovers(t.Context()); err != nil || len(leftovers) != 0 {
		t.Errorf("after terminate: %+v, %v", leftovers, err)
	}
}

func TestKilledSentry(t *testing.T) {
	p, sb := crashed(t, nil)
	if err := syscall.Kill(sentryPID(t, supervisorPID(t, p, sb.ID)), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	failed, err := p.WaitSandbox(providertest.Patient(t), sb.ID)
	if err != nil || failed.State != core.StateFailed || failed.Reason != core.ReasonCrash {
		t.Errorf("it is %+v, %v", failed, err)
	}
	_, err = p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"true"}})
	if !errors.Is(err, core.KindConflict) {
		t.Errorf("a command in it: %v", err)
	}
}

// A sandbox ends with its file server, also while it is frozen: it could not open files.
func TestKilledGofer(t *testing.T) {
	p, sb := crashed(t, nil)
	within(t, "it freezes", func() bool {
		got, err := p.Get(t.Context(), sb.ID)
		return err == nil && got.Frozen
	})
	if err := syscall.Kill(childPID(t, supervisorPID(t, p, sb.ID), "runsc-gofer"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	failed, err := p.WaitSandbox(providertest.Patient(t), sb.ID)
	if err != nil || failed.State != core.StateFailed || failed.Reason != core.ReasonCrash {
		t.Errorf("it is %+v, %v", failed, err)
	}
}

// A start that fails after its client was killed leaves the sandbox stopped: prune does not remove saved files.
func TestFailedStartKeepsSavedFiles(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) { spec.Persist = true })
	if err := p.Stop(t.Context(), sb.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	lock, err := p.store.Lock(sb.ID)
	if err != nil {
		t.Fatal(err)
	}
	state, err := p.store.ReadState(sb.ID)
	if err != nil {
		t.Fatal(err)
	}
	request := socket.Launch{ID: sb.ID, Spec: sb.Spec, Lease: sb.Lease, Restore: state.Saved}
	request.Spec.Command = []string{"no-such-program"}
	err = p.supervise(t.Context(), lock, request, nil, nil) // Start without its cleanup after a failure
	_ = lock.Close()
	if err == nil {
		t.Fatal("it was started")
	}
	stopped, err := p.Get(t.Context(), sb.ID)
	if err != nil || stopped.State != core.StateStopped || stopped.Reason != core.ReasonLaunch {
		t.Errorf("it is %+v, %v", stopped, err)
	}
	if _, err := p.Start(t.Context(), sb.ID); err != nil {
		t.Error(err)
	}
}

// The error for a supervisor that ends without a message does not contain the log of its predecessor.
func TestFailedStartNamesItsOwnCause(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("the first life ends\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := firstLine(log, 20); got != "it was killed, or it crashed" {
		t.Errorf("of a supervisor that logged nothing: %q", got)
	}
	if err := os.WriteFile(log, []byte("the first life ends\nthe second fails\nand more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := firstLine(log, 20); got != "the second fails" {
		t.Errorf("of one that did: %q", got)
	}
}

func TestPersistentSandboxSurvivesAKill(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) { spec.Persist = true })
	if err := p.WriteFile(t.Context(), sb.ID, "/root/saved", strings.NewReader("1"), core.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context(), sb.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(supervisorPID(t, p, sb.ID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	stopped, err := p.WaitSandbox(providertest.Patient(t), sb.ID)
	if err != nil || stopped.State != core.StateStopped || stopped.Reason != core.ReasonSupervisor {
		t.Fatalf("it is %+v, %v", stopped, err)
	}
	if _, err := p.Start(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if info, err := p.Stat(t.Context(), sb.ID, "/root/saved"); err != nil || info.Size != 1 {
		t.Errorf("the file is %+v, %v", info, err)
	}
}

func TestBoundSandboxEndsWithItsOwner(t *testing.T) {
	p, ok := opener(t, nil)(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	owner := core.CurrentOwner("test")
	owner.PIDStart++ // another process has this pid now: the owner is gone
	sb, err := p.Launch(
		t.Context(), core.Spec{Name: core.NewName(), Image: HostImage},
		core.Lease{Owner: owner, Created: time.Now(), Bound: true}, nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := p.WaitSandbox(providertest.Patient(t), sb.ID)
	if err != nil || ended.Reason != core.ReasonLeaseEnded {
		t.Errorf("it is %+v, %v", ended, err)
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Error(err)
	}
}

func TestInterruptedLaunchIsListed(t *testing.T) {
	p, ok := opener(t, nil)(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	// A client that died right after it made the directory, …
	lock, err := p.store.Create("loc-dirdirdi")
	if err != nil {
		t.Fatal(err)
	}
	if leftovers, err := p.Leftovers(t.Context()); err != nil || len(leftovers) != 0 {
		t.Errorf("while the client lives: %+v, %v", leftovers, err)
	}
	_ = lock.Close()
	leftovers, err := p.Leftovers(t.Context())
	if err != nil || len(leftovers) != 1 {
		t.Fatalf("%+v, %v", leftovers, err)
	}
	if err := p.Sweep(t.Context(), leftovers[0]); err != nil {
		t.Error(err)
	}
	// … and one that had written the lease.
	lock, err = p.store.Create("loc-leaselea")
	if err != nil {
		t.Fatal(err)
	}
	err = store.WriteLease(p.store.Dir("loc-leaselea"), leaseOf("loc-leaselea"))
	_ = lock.Close()
	if err != nil {
		t.Fatal(err)
	}
	sb, err := p.Get(t.Context(), "loc-leaselea")
	if err != nil || sb.State != core.StateLost || sb.Reason != core.ReasonLaunch {
		t.Errorf("it is %+v, %v", sb, err)
	}
	if err := p.Terminate(t.Context(), "loc-leaselea"); err != nil {
		t.Error(err)
	}
}

func TestFailedLaunchLeavesNothing(t *testing.T) {
	p, ok := opener(t, nil)(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, launch := range map[string]func() error{
		"cancelled": func() error {
			_, err := p.Launch(ctx, core.Spec{Name: "cancelled", Image: HostImage}, core.Lease{}, nil)
			return err
		},
		"missing command": func() error {
			_, err := p.Launch(
				t.Context(), core.Spec{Name: "missing", Image: HostImage, Command: []string{"no-such-program"}}, core.Lease{}, nil,
			)
			return err
		},
	} {
		if launch() == nil {
			t.Errorf("%s: it was launched", name)
		}
		all, err := p.List(t.Context())
		leftovers, sweepErr := p.Leftovers(t.Context())
		if err != nil || sweepErr != nil || len(all) != 0 || len(leftovers) != 0 {
			t.Errorf("%s: left behind are %+v, %+v, %v, %v", name, all, leftovers, err, sweepErr)
		}
	}
}

func TestIdleSandboxIsFrozen(t *testing.T) {
	p, sb := crashed(t, nil)
	frozen := func() bool {
		got, err := p.Get(t.Context(), sb.ID)
		return err == nil && got.Frozen
	}
	within(t, "it freezes", frozen)
	process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	if frozen() {
		t.Error("it is frozen under a command")
	}
	if err := process.Signal(t.Context(), 9); err != nil {
		t.Fatal(err)
	}
	within(t, "it freezes again", frozen)
	if stats, err := p.Stats(t.Context(), sb.ID); err != nil || !stats.Frozen {
		t.Errorf("stats are %+v, %v", stats, err)
	}
}

func TestLongSocketPath(t *testing.T) {
	p, ok := opener(t, func(o *Options) {
		o.StateDir = filepath.Join(o.StateDir, strings.Repeat("long/", 30))
	})(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	sb, err := p.Launch(
		t.Context(), core.Spec{Name: core.NewName(), Image: HostImage},
		core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}, nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Stats(t.Context(), sb.ID); err != nil {
		t.Error(err)
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Error(err)
	}
}

// A lost sandbox keeps no name, so a launch may take it. A later start must not run a second sandbox of that name: the
// name would lead to only one of them.
func TestStartAfterTheNameWasTaken(t *testing.T) {
	p, first := crashed(t, func(spec *core.Spec) { spec.Persist = true })
	lose := func(sb core.Sandbox) {
		t.Helper()
		if err := syscall.Kill(supervisorPID(t, p, sb.ID), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if lost, err := p.WaitSandbox(providertest.Patient(t), sb.ID); err != nil || lost.State != core.StateLost {
			t.Fatalf("%s is %+v, %v", sb.ID, lost, err)
		}
	}
	named := func(want core.Sandbox) {
		t.Helper()
		if got, err := p.FindName(t.Context(), first.Name); err != nil || got.ID != want.ID {
			t.Errorf("the name leads to %s, %v; want %s", got.ID, err, want.ID)
		}
	}
	lose(first)
	second := launched(t, p, func(spec *core.Spec) { spec.Name, spec.Persist = first.Name, true })
	if _, err := p.Start(t.Context(), first.ID); !errors.Is(err, core.KindConflict) {
		t.Errorf("start beside a sandbox of the same name: %v", err)
	}
	named(second)
	if sb, err := p.Get(t.Context(), first.ID); err != nil || sb.State != core.StateLost {
		t.Errorf("after the refused start it is %+v, %v", sb, err)
	}
	lose(second)
	if _, err := p.Start(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	named(first)
	if _, err := p.Start(t.Context(), second.ID); !errors.Is(err, core.KindConflict) {
		t.Errorf("start beside a sandbox that has the name again: %v", err)
	}
	named(first)
}

// A killed supervisor leaves the state "running". While the next one starts, no client may believe it.
func TestStateDuringAStart(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) { spec.Persist = true })
	if err := syscall.Kill(supervisorPID(t, p, sb.ID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := p.WaitSandbox(providertest.Patient(t), sb.ID); err != nil {
		t.Fatal(err)
	}
	var during core.Sandbox
	p.checked = func() { during, _ = p.Get(t.Context(), sb.ID) }
	if _, err := p.Start(t.Context(), sb.ID); err != nil || during.State != core.StateCreating {
		t.Errorf("during the start it is %q, %v", during.State, err)
	}
}
