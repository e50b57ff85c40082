package tui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/tui/internal/format"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// choice is one button of a question.
type choice struct {
	key, label string
	request    request
}

// question asks for confirmation. The first choice is harmless and preselected, so that a stray Enter changes nothing.
type question struct {
	title   string
	lines   []string
	choices []choice
	at      int
	// cli is the command line equivalent to the last choice, or "".
	cli string

	buttons []rect // relative to the box
}

func (q *question) update(msg tea.Msg) answer {
	pick := func(i int) answer { return answer{done: true, request: q.choices[i].request} }
	if click, ok := msg.(boxClickMsg); ok {
		for i, r := range q.buttons {
			if r.contains(click.x, click.y) {
				return pick(i)
			}
		}
		return answer{}
	}
	switch key := keyOf(msg); key {
	case "":
	case "esc", "ctrl+c", "q":
		return pick(0)
	case "left", "shift+tab", "h":
		q.at = (q.at + len(q.choices) - 1) % len(q.choices)
	case "right", "tab", "l":
		q.at = (q.at + 1) % len(q.choices)
	case "enter":
		return pick(q.at)
	case "ctrl+y":
		if q.cli != "" {
			return answer{request: copyRequest{"command", q.cli}}
		}
	default:
		for i, c := range q.choices {
			if key == c.key {
				return pick(i)
			}
		}
	}
	return answer{}
}

func (q *question) view(s *theme.Styles, w, h int) []string {
	w = min(w, 76)
	var lines []string
	for _, l := range q.lines {
		lines = append(lines, screen.Prose(safe(l), w-4)...)
	}
	if room := max(1, h-6); len(lines) > room {
		lines = append(lines[:room-1], s.Faint.On("… and "+format.Plural(len(lines)-room+1, "more line", "more lines")))
	}
	for i, l := range lines {
		lines[i] = s.Dialog.On(l)
	}
	lines = append(lines, "")
	row, x := "", 2
	q.buttons = q.buttons[:0]
	for i, c := range q.choices {
		p := s.Button
		if i == q.at {
			p = s.ButtonActive
		}
		label := " " + c.label + " (" + c.key + ") "
		q.buttons = append(q.buttons, rect{x, len(lines) + 1, screen.Width(label), 1})
		x += screen.Width(label) + 1
		row += p.On(label) + " "
	}
	lines = append(lines, row)
	if q.cli != "" {
		lines = append(lines, s.Faint.On(screen.Cut("ctrl+y copies: "+safe(q.cli), w-4)))
	}
	return frame(s, q.title, lines, w)
}

// boxClickMsg is a click inside the dialog, relative to its corner.
type boxClickMsg struct{ x, y int }
