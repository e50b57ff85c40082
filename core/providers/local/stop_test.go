//go:build linux

package local

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// trapped launches a persistent sandbox whose entry command, once it is told to end, says so by the file that is
// returned, and then does what the rest of its line says.
func trapped(t *testing.T, then string) (p *Provider, sb core.Sandbox, told func() bool) {
	t.Helper()
	shared := t.TempDir()
	p, ok := opener(t, func(o *Options) { o.HostDirs = []string{shared} })(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	sb = launched(t, p, func(spec *core.Spec) {
		spec.Persist, spec.Volumes = true, []core.Volume{{Source: shared, Target: "/shared"}}
		spec.Command = []string{"sh", "-c", "trap 'touch /shared/told; " + then + "' TERM; touch /shared/ready; while :; do sleep 0.02; done"}
	})
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(shared, name))
		return err == nil
	}
	within(t, "it waits for the signal", func() bool { return there("ready") })
	return p, sb, func() bool { return there("told") }
}

// The command ends because the stop asks it to: that is the stop's doing, whatever it does until then and however
// long others take.
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
	if err != nil || stopped.State != core.StateStopped || stopped.Reason != core.ReasonStopped || stopped.ExitCode == nil || *stopped.ExitCode != 3 {
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

func TestStopOfASandboxThatDies(t *testing.T) {
	p, sb, told := trapped(t, ":")
	sentry := sentryPID(t, supervisorPID(t, p, sb.ID))
	stopping := make(chan error, 1)
	go func() { stopping <- p.Stop(t.Context(), sb.ID, time.Minute) }()
	within(t, "it is told to end", told)
	if err := syscall.Kill(sentry, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := <-stopping
	if core.KindOf(err) != core.KindConflict || !strings.Contains(err.Error(), "ended before it was saved") {
		t.Errorf("stop: %v", err)
	}
}
