//go:build linux

package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
	"github.com/seed-0724f904/sb/core/providertest"
)

// trapped launches a persistent sandbox. On the signal to end, its entry command creates a file and then runs the shell
// line then. signaled reports whether the file exists.
func trapped(t *testing.T, then string) (p *Provider, sb core.Sandbox, signaled func() bool) {
	t.Helper()
	shared := t.TempDir()
	p, ok := opener(t, nil)(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	sb = launched(t, p, func(spec *core.Spec) {
		spec.Persist, spec.Volumes = true, []core.Volume{{Source: shared, Target: "/shared"}}
		spec.Command = []string{"sh", "-c", "trap 'touch /shared/told; " + then +
			"' TERM; touch /shared/ready; while :; do sleep 0.02; done"}
	})
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(shared, name))
		return err == nil
	}
	within(t, "it waits for the signal", func() bool { return there("ready") })
	return p, sb, func() bool { return there("told") }
}

// The entry command's end during a stop counts as the stop, whatever its exit code is and however long other commands
// take.
func TestStopEndsTheEntryCommand(t *testing.T) {
	p, sb, _ := trapped(t, "sleep 0.2; echo tidied up; exit 3")
	slow, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"sh", "-c", "trap '' TERM; exec sleep 600"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	if err := p.Stop(t.Context(), sb.ID, time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
	stopped, err := p.Get(t.Context(), sb.ID)
	if err != nil || stopped.State != core.StateStopped || stopped.Reason != core.ReasonStopped ||
		stopped.ExitCode == nil || *stopped.ExitCode != 3 {
		t.Errorf("it is %+v, %v", stopped, err)
	}
	var log strings.Builder
	for record, err := range p.Logs(t.Context(), sb.ID, core.LogOptions{Exec: "0", Tail: -1}) {
		if err != nil {
			t.Fatal(err)
		}
		log.Write(record.Data)
	}
	if !strings.HasSuffix(log.String(), "tidied up\n") {
		t.Errorf("it wrote %q", log.String())
	}
}

func TestStopDyingSandbox(t *testing.T) {
	p, sb, signaled := trapped(t, ":")
	sentry := sentryPID(t, supervisorPID(t, p, sb.ID))
	stopping := make(chan error, 1)
	go func() { stopping <- p.Stop(t.Context(), sb.ID, time.Minute) }()
	within(t, "it gets the signal to end", signaled)
	if err := syscall.Kill(sentry, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := providertest.Receive(t, stopping)
	if !errors.Is(err, core.KindConflict) || !strings.Contains(err.Error(), "ended before it was saved") {
		t.Errorf("stop: %v", err)
	}
}

func TestExecInDyingSandbox(t *testing.T) {
	// In a frozen sandbox the supervisor would wake the sentry for the command.
	p, ok := opener(t, func(o *Options) { o.FreezeAfter = 0 })(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	sb := launched(t, p, nil)
	sentry := sentryPID(t, supervisorPID(t, p, sb.ID))
	if err := syscall.Kill(sentry, syscall.SIGSTOP); err != nil { // it will not answer
		t.Fatal(err)
	}
	executing := make(chan error, 1)
	go func() {
		_, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"true"}})
		executing <- err
	}()
	within(t, "the command is noted", func() bool {
		execs, err := p.Execs(t.Context(), sb.ID)
		return err == nil &&
			len(execs) == 1
	})
	if err := syscall.Kill(sentry, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := providertest.Receive(t, executing); !errors.Is(err, core.KindConflict) ||
		!strings.Contains(err.Error(), "ended") {
		t.Errorf("exec: %v", err)
	}
}

// Files written before a pause are saved, too: in time, and if the sandbox ends while it is paused.
func TestPausedSandboxIsSaved(t *testing.T) {
	for what, test := range map[string]struct {
		every time.Duration
		end   syscall.Signal
	}{"while it is paused": {500 * time.Millisecond, syscall.SIGKILL}, "at its end": {time.Hour, syscall.SIGTERM}} {
		p, ok := opener(t, func(o *Options) { o.SaveInterval = test.every })(t).(*Provider)
		if !ok {
			t.Fatal("not the local provider")
		}
		sb := launched(t, p, func(spec *core.Spec) { spec.Persist = true })
		output(t, p, sb.ID, "echo kept > /root/file")
		if err := p.Pause(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		if test.end == syscall.SIGKILL {
			within(t, "it is saved", func() bool {
				state, err := p.store.ReadState(sb.ID)
				return err == nil && state.Saved > 0
			})
		}
		end(t, p, sb.ID, test.end)
		if _, err := p.Start(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		if text := output(t, p, sb.ID, "cat /root/file"); text != "kept\n" {
			t.Errorf("%s: it kept %q", what, text)
		}
	}
}

// end sends a signal to a sandbox's supervisor and waits until that is gone.
func end(t *testing.T, p *Provider, id string, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(supervisorPID(t, p, id), signal); err != nil {
		t.Fatal(err)
	}
	within(t, "its supervisor is gone", func() bool { return !p.store.Locked(id) })
}

func TestStopReportsUnsavedFiles(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) { spec.Persist = true })
	output(t, p, sb.ID, "echo lost > /root/file")
	saved := filepath.Join(p.store.Dir(sb.ID), store.SavedDir)
	if err := os.WriteFile(saved, nil, 0o600); err != nil { // no directory can be made there
		t.Fatal(err)
	}
	end(t, p, sb.ID, syscall.SIGTERM)
	got, err := p.Get(t.Context(), sb.ID)
	if err != nil || got.State != core.StateStopped || !strings.HasSuffix(got.Message, "; its files were never saved") {
		t.Errorf("it is %+v, %v", got, err)
	}
}

// A stop ends when its supervisor has ended, even if another client starts the sandbox at that moment.
func TestStopDoesNotWaitForTheNextSupervisor(t *testing.T) {
	p, ok := opener(t, nil)(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	const id = "loc-restarte"
	lock, err := p.store.Create(id)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	first := store.Process{PID: 1, Start: 1, BootID: "b"}
	if err := p.store.WriteProcess(id, first); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.awaitStop(ctx, id, first); !errors.Is(err, context.Canceled) {
		t.Errorf("while its supervisor runs: %v", err)
	}
	if err := p.store.WriteProcess(id, store.Process{PID: 2, Start: 2, BootID: "b"}); err != nil {
		t.Fatal(err)
	}
	if err := p.awaitStop(ctx, id, first); err != nil {
		t.Errorf("while the next one runs: %v", err)
	}
}
