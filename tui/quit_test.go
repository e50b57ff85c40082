package tui

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
)

// Quitting asks while a sandbox is being terminated, even though that is usually short.
func TestQuitAsksWhileSandboxesAreTerminated(t *testing.T) {
	provider := fake.New(fake.Options{})
	svc := newService(t, provider)
	launch(t, svc, core.Spec{Name: "dev"})
	r := newRig(t, Options{Service: svc})
	r.until("dev is there", r.hasRow("dev"))
	provider.Inject(fake.OpTerminate, fake.Fault{Delay: time.Second})
	r.press("x", "y", "q")
	r.shows("terminate dev")
	r.press("w")
	r.until("it quits", func() bool { return r.quit })
	if _, err := svc.Sandboxes.Resolve(t.Context(), "dev"); !errors.Is(err, core.KindNotFound) {
		t.Error("dev is still there:", err)
	}
}

// "Quit when done" also quits when the job ended while the question was open.
func TestQuitAfterJobsAreDone(t *testing.T) {
	r := newRig(t, Options{Service: newService(t, fake.New(fake.Options{}))})
	j := r.m.begin("something")
	r.press("q")
	r.send(jobDoneMsg{id: j.id})
	r.press("w")
	r.until("it quits", func() bool { return r.quit })
}

// When a job fails, the dashboard does not quit, so that the user sees the error.
func TestFailureCancelsQuit(t *testing.T) {
	r := newRig(t, Options{Service: newService(t, fake.New(fake.Options{}))})
	first, last := r.m.begin("first"), r.m.begin("last")
	r.press("q", "w")
	r.send(jobDoneMsg{id: first.id, err: core.Errorf(core.KindUnavailable, "push", "", "the disk is full")})
	r.send(jobDoneMsg{id: last.id})
	r.shows("first: the disk is full")
	if r.m.leaving {
		t.Error("the dashboard still waits to quit")
	}
}

// A sandbox that ends while the question is open causes no error.
func TestTerminateEndedSandbox(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	for _, name := range []string{"a", "b"} {
		launch(t, svc, core.Spec{Name: name})
	}
	r := newRig(t, Options{Service: svc})
	r.until("both are there", func() bool { return len(r.rowNames()) == 2 })
	r.press("*", "x")
	if err := svc.Sandboxes.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	r.press("y")
	r.until("both are gone and the job has ended", func() bool { return len(r.rowNames()) == 0 && len(r.m.jobs) == 0 })
	for _, n := range r.m.notices.log {
		if n.severity != severityInfo {
			t.Errorf("notice %q", n.text)
		}
	}
}
