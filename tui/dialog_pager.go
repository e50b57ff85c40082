package tui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/tui/theme"
)

// pager is a dialog that shows text.
type pager struct {
	title string
	// lines renders the text for a width in cells.
	lines  func(s *theme.Styles, w int) []string
	scroll scroller
	wide   bool
}

func (p *pager) update(msg tea.Msg) answer {
	if wheel, ok := msg.(tea.MouseWheelMsg); ok {
		p.scroll.move(wheelStep(wheel))
		return answer{}
	}
	switch keyOf(msg) {
	case "esc", "q", "?", "enter", "ctrl+c":
		return answer{done: true}
	case "up", "k":
		p.scroll.move(-1)
	case "down", "j":
		p.scroll.move(1)
	case "pgup", "ctrl+b":
		p.scroll.move(-p.scroll.h)
	case "pgdown", "space", "ctrl+f":
		p.scroll.move(p.scroll.h)
	case "home", "g":
		p.scroll.move(-p.scroll.total)
	case "end", "G":
		p.scroll.move(p.scroll.total)
	}
	return answer{}
}

func (p *pager) view(s *theme.Styles, w, h int) []string {
	most := 84
	if p.wide {
		most = 140
	}
	w = min(w, most)
	lines := p.lines(s, w-4)
	shown := p.scroll.cutTo(lines, min(max(1, h-2), len(lines)))
	title := p.title
	if p.scroll.total > p.scroll.h {
		title += " · ↑↓ scroll"
	}
	return frame(s, title+" · esc closes", shown, w)
}

// wheelStep returns how many lines a turn of the wheel scrolls.
func wheelStep(msg tea.MouseWheelMsg) int {
	const lines = 3
	if msg.Button == tea.MouseWheelUp {
		return -lines
	}
	if msg.Button == tea.MouseWheelDown {
		return lines
	}
	return 0
}
