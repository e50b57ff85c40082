package tui

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// execsTab shows a sandbox's journal of commands, the newest first.
type execsTab struct {
	execs  []core.Exec // oldest first
	loaded bool
	err    error
	cursor int // counted from the newest
	offset int
	h      int
}

func (t *execsTab) Take(msg execsMsg) {
	var current string
	if e, ok := t.selected(); ok {
		current = e.ID
	}
	if t.err = msg.err; msg.err == nil {
		t.execs, t.loaded = msg.execs, true
	}
	for i := range t.execs {
		if t.execs[len(t.execs)-1-i].ID == current && t.cursor > 0 {
			t.cursor = i
		}
	}
	t.move(0)
}

func (t *execsTab) selected() (core.Exec, bool) {
	if t.cursor < 0 || t.cursor >= len(t.execs) {
		return core.Exec{}, false
	}
	return t.execs[len(t.execs)-1-t.cursor], true
}

func (t *execsTab) move(by int) {
	t.cursor = min(max(t.cursor+by, 0), max(0, len(t.execs)-1))
	page := max(1, t.h-1)
	t.offset = min(t.offset, t.cursor)
	t.offset = max(t.offset, t.cursor-page+1, 0)
}

func (t *execsTab) view(s *theme.Styles, w, h int, focus bool, now time.Time, query string) []string {
	t.h = h
	t.move(0)
	if t.err != nil {
		return problem(s, t.err, w)
	}
	if len(t.execs) == 0 {
		if !t.loaded {
			return []string{s.Faint.On("…")}
		}
		return []string{s.Faint.On("no commands yet")}
	}
	lines := []string{s.Header.On(screen.Fit("ID", 5) + screen.Fit("STATE", 12) + screen.Fit(
		"STARTED", 9,
	) + screen.Fit("TOOK", 8) +
		screen.Fit("OUTPUT", 8) + screen.Fit("BY", 8) + "COMMAND")}
	newest := slices.Clone(t.execs)
	slices.Reverse(newest)
	for i, e := range newest[min(t.offset, len(newest)):] {
		if len(lines) >= h {
			break
		}
		state, p := execState(s, e)
		ended := e.Ended
		if ended.IsZero() {
			ended = now
		}
		rest := screen.Fit(format.Since(e.Started, now), 9) + screen.Fit(format.Span(ended.Sub(e.Started)), 8) +
			screen.Fit(written(e), 8) + screen.Fit(safe(e.Actor), 7) + " " + safe(strings.Join(e.Command, " "))
		switch current := i+t.offset == t.cursor; {
		case current && focus:
			lines = append(lines, s.Selected.On(screen.Fit(screen.Fit(e.ID, 5)+screen.Fit(state, 12)+rest, w)))
		case current:
			lines = append(lines, s.SelectedOut.On(screen.Fit(screen.Fit(e.ID, 5)+screen.Fit(state, 12)+rest, w)))
		default:
			lines = append(
				lines, highlight(s, s.Faint.On(screen.Fit(e.ID, 5))+p.On(screen.Fit(state, 12))+s.Text.On(rest), query, false),
			)
		}
	}
	return lines
}

// written formats the size of a command's output, or returns "" while it is unknown.
func written(e core.Exec) string {
	n := core.Bytes(e.StdoutBytes + e.StderrBytes)
	if n == 0 && e.Running() {
		return ""
	}
	return format.Short(n)
}

// execLine returns the searchable text of a command.
func execLine(e core.Exec) string {
	return safe(e.ID + " " + e.Actor + " " + strings.Join(e.Command, " "))
}

func execState(s *theme.Styles, e core.Exec) (string, theme.Paint) {
	switch {
	case e.Running():
		return "● running", s.Good
	case e.Exit == nil:
		return "✗ lost", s.Bad
	case e.Exit.TimedOut:
		return "✗ timeout", s.Bad
	case e.Exit.Signal != 0:
		return "✗ signal " + strconv.Itoa(e.Exit.Signal), s.Bad
	case e.Exit.Code != 0:
		return "✗ " + strconv.Itoa(e.Exit.Code), s.Bad
	}
	return "✓ 0", s.Off
}
