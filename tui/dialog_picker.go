package tui

import (
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/sahilm/fuzzy"

	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// item is one line of a picker.
type item struct {
	label, detail string
	request       request
	// cli is the equivalent command line, or "".
	cli string
}

// picker is a list to choose one item from. Typing filters it.
type picker struct {
	title  string
	items  []item
	input  textinput.Model
	shown  []int // indexes of items, best first
	at     int
	offset int
	rows   int
}

func newPicker(title string, items []item) *picker {
	p := &picker{title: title, items: items, input: newInput("")}
	p.filter()
	return p
}

func (p *picker) filter() {
	p.shown, p.at, p.offset = p.shown[:0], 0, 0
	if p.input.Value() == "" {
		for i := range p.items {
			p.shown = append(p.shown, i)
		}
		return
	}
	labels := make([]string, len(p.items))
	for i, it := range p.items {
		labels[i] = it.label
	}
	for _, m := range fuzzy.Find(p.input.Value(), labels) {
		p.shown = append(p.shown, m.Index)
	}
}

func (p *picker) update(msg tea.Msg) answer {
	if click, ok := msg.(boxClickMsg); ok {
		if i := p.offset + click.y - 2; click.y >= 2 && i < len(p.shown) && click.y-2 < p.rows {
			return answer{done: true, request: p.items[p.shown[i]].request}
		}
		return answer{}
	}
	if wheel, ok := msg.(tea.MouseWheelMsg); ok {
		p.move(wheelStep(wheel))
		return answer{}
	}
	switch keyOf(msg) {
	case "esc", "ctrl+c":
		return answer{done: true}
	case "enter":
		if p.at < len(p.shown) {
			return answer{done: true, request: p.items[p.shown[p.at]].request}
		}
		return answer{}
	case "up", "ctrl+p", "shift+tab":
		p.move(-1)
		return answer{}
	case "down", "ctrl+n", "tab":
		p.move(1)
		return answer{}
	case "pgup":
		p.move(-max(1, p.rows))
		return answer{}
	case "pgdown":
		p.move(max(1, p.rows))
		return answer{}
	case "ctrl+y":
		if p.at < len(p.shown) && p.items[p.shown[p.at]].cli != "" {
			return answer{done: true, request: copyRequest{"command", p.items[p.shown[p.at]].cli}}
		}
		return answer{}
	}
	before := p.input.Value()
	var cmd tea.Cmd
	p.input, cmd = p.input.Update(msg)
	if p.input.Value() != before {
		p.filter()
	}
	return answer{cmd: cmd}
}

func (p *picker) move(by int) {
	p.at = min(max(p.at+by, 0), max(0, len(p.shown)-1))
}

func (p *picker) view(s *theme.Styles, w, h int) []string {
	w = min(w, 84)
	inner := w - 4
	p.input.SetWidth(inner - 4)
	p.rows = min(max(1, h-5), len(p.items))
	p.offset = min(max(p.offset, p.at-p.rows+1, 0), p.at)
	lines := []string{s.Key.On("> ") + p.input.View()}
	for i := p.offset; i < min(p.offset+p.rows, len(p.shown)); i++ {
		it := p.items[p.shown[i]]
		detail := screen.Cut(safe(it.detail), inner/2)
		text := screen.Fit(safe(it.label), inner-screen.Width(detail)-1) + " "
		if i == p.at {
			lines = append(lines, s.Selected.On(text+detail))
		} else {
			lines = append(lines, s.Text.On(text)+s.Faint.On(detail))
		}
	}
	for len(lines) < p.rows+1 {
		lines = append(lines, "")
	}
	cli := ""
	if p.at < len(p.shown) {
		cli = p.items[p.shown[p.at]].cli
	}
	if cli != "" {
		cli = "ctrl+y copies: " + safe(cli)
	}
	lines = append(lines, s.Faint.On(screen.Cut(cli, inner)))
	return frame(s, p.title, lines, w)
}
