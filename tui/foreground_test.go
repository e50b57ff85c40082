package tui

import (
	"slices"
	"testing"

	"github.com/seed-0724f904/sb/core/providers/fake"
)

// A function that returns the terminal at once leaves a dashboard that draws.
func TestDashboardDrawsAfterForeground(t *testing.T) {
	asides := make(chan func() error)
	tm := newProgram(t, Options{Service: newService(t, fake.New(fake.Options{})), Asides: asides})
	tm.shows("no sandboxes")
	// The name of Bubble Tea's goroutine is not a part of its API.
	if states := rendererStates(); len(states) == 0 {
		t.Fatalf("the goroutines that draw are %v: has Bubble Tea renamed them?", states)
	}
	for range 5 {
		ran := make(chan struct{})
		asides <- func() error { close(ran); return nil }
		<-ran
		tm.Send(keyPress("L"))
		tm.shows("runs on fake")
		tm.Send(keyPress("esc"))
		tm.shows("no sandboxes")
	}
	tm.Send(keyPress("q"))
	tm.final()
	if states := rendererStates(); slices.Contains(states, "select") {
		t.Errorf("after the end there is %v", states)
	}
}
