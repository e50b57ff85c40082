package tui

import (
	"context"
	"errors"
	"os"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/seed-0724f904/sb/core/providers/fake"
)

// A dashboard that is told to end has stopped to read its input when it closes it: the race detector sees whether it has.
func TestEndWhileInputIsRead(t *testing.T) {
	service := newService(t, fake.New(fake.Options{}))
	for range 20 {
		input, typing, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		out := &untilText{text: "live", seen: cancel}
		if err := run(ctx, Options{Service: service, Input: input, Output: out, Theme: ThemeDark}, tea.WithWindowSize(80, 24)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := errors.Join(typing.Close(), input.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A terminal that can count clusters of characters does not make Bubble Tea count them, as nothing here does.
func TestOneMeasure(t *testing.T) {
	if msg := oneMeasure(nil, tea.ModeReportMsg{Mode: ansi.ModeUnicodeCore, Value: ansi.ModeReset}); msg != nil {
		t.Errorf("it is told of %v", msg)
	}
	if msg := oneMeasure(nil, tea.ModeReportMsg{Mode: ansi.ModeSynchronizedOutput, Value: ansi.ModeReset}); msg == nil {
		t.Error("it is not told of another mode")
	}
}
