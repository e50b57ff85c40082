package tui

import (
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

const (
	toastTime  = 5 * time.Second
	errorTime  = 12 * time.Second
	maxToasts  = 3
	maxNotices = 500
)

// severity is the importance of a notice.
type severity int

const (
	severityInfo severity = iota
	severityWarn
	severityBad
)

// notice is one message to the user.
type notice struct {
	id       int
	at       time.Time
	severity severity
	text     string
	hint     string
}

// notices holds the log of all notices and those on the screen.
type notices struct {
	log   []notice
	shown []notice
	next  int
}

// add shows and logs a notice.
func (n *notices) add(at time.Time, s severity, text, hint string) notice {
	n.next++
	added := notice{n.next, at, s, safe(text), safe(hint)}
	n.log = append(n.log, added)
	n.log = n.log[max(0, len(n.log)-maxNotices):]
	n.shown = append(n.shown, added)
	n.shown = n.shown[max(0, len(n.shown)-maxToasts):]
	return added
}

// over removes a notice from the screen.
func (n *notices) over(id int) {
	for i, t := range n.shown {
		if t.id == id {
			n.shown = append(n.shown[:i:i], n.shown[i+1:]...)
			return
		}
	}
}

// view draws the notices on the screen, at most cells wide.
func (n *notices) view(s *theme.Styles, cells int) []string {
	var lines []string
	for _, t := range n.shown {
		p := s.Toast
		switch t.severity {
		case severityWarn:
			p = s.ToastWarn
		case severityBad:
			p = s.ToastBad
		case severityInfo:
		}
		for i, text := range []string{t.text, t.hint} {
			if text == "" {
				continue
			}
			if i == 1 {
				text = "→ " + text
			}
			lines = append(lines, p.On(" "+screen.Cut(text, cells-2)+" "))
		}
	}
	widest := 0
	for _, l := range lines {
		widest = max(widest, screen.Width(l))
	}
	for i, l := range lines {
		lines[i] = screen.Blanks(widest-screen.Width(l)) + l
	}
	return lines
}

// eventNotice returns the notice for an event, or "".
func eventNotice(event core.Event) (severity, string) {
	if event.Type == core.EventDenial && event.Denial != nil && event.Name != "" {
		return severityWarn, event.Name + ": connection denied to " + deniedTarget(*event.Denial)
	}
	if event.Type != core.EventState || event.Name == "" {
		return severityInfo, ""
	}
	switch event.State {
	case "":
		return severityInfo, event.Name + " is terminated"
	case core.StateFailed, core.StateLost:
		text := event.Name + " " + string(event.State)
		if event.State == core.StateLost {
			text = event.Name + " is lost"
		}
		if event.Message != "" {
			text += ": " + event.Message
		}
		return severityBad, text
	case core.StateExited:
		if event.Message != "" {
			return severityInfo, event.Name + " exited: " + event.Message
		}
		return severityInfo, event.Name + " exited"
	case core.StateQueued, core.StateCreating:
		return severityInfo, ""
	case core.StateRunning, core.StatePaused, core.StateStopped:
		return severityInfo, event.Name + " is " + string(event.State)
	}
	return severityInfo, ""
}
