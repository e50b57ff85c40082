package tui

import (
	"context"
	"errors"
	"os"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/tui/theme"
)

// When ctx ends, the dashboard stops reading its input before it closes it. The race detector checks that.
func TestEndWhileInputIsRead(t *testing.T) {
	svc := newService(t, fake.New(fake.Options{}))
	for range 20 {
		input, typing, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		out := &untilText{text: "live", seen: cancel}
		options := Options{Service: svc, Input: input, Output: out, Theme: theme.Dark}
		if err := run(ctx, options, tea.WithWindowSize(80, 24)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := errors.Join(typing.Close(), input.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Bubble Tea does not switch to grapheme clusters, which this package does not use, when the terminal supports them.
func TestOneMeasure(t *testing.T) {
	if msg := oneMeasure(nil, tea.ModeReportMsg{Mode: ansi.ModeUnicodeCore, Value: ansi.ModeReset}); msg != nil {
		t.Errorf("the filter passes %v", msg)
	}
	if msg := oneMeasure(nil, tea.ModeReportMsg{Mode: ansi.ModeSynchronizedOutput, Value: ansi.ModeReset}); msg == nil {
		t.Error("the filter drops another mode")
	}
}
