package tui

import (
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// prompt asks for one line of text and validates it while the user types.
type prompt struct {
	title, hint string
	input       textinput.Model
	// check returns the request for a text, or an error that explains why there is none.
	check func(text string) (request, error)
	// cli returns the equivalent command line; nil means there is none.
	cli func(text string) string
}

func newPrompt(title, hint, value string, check func(string) (request, error)) *prompt {
	return &prompt{title: title, hint: hint, input: newInput(value), check: check}
}

// newInput returns a text input with the cursor at the end of value.
func newInput(value string) textinput.Model {
	in := textinput.New()
	in.Prompt = ""
	in.SetVirtualCursor(true)
	styles := in.Styles()
	styles.Cursor.Blink = false
	styles.Focused, styles.Blurred = textinput.StyleState{}, textinput.StyleState{}
	in.SetStyles(styles)
	in.SetValue(value)
	in.CursorEnd()
	_ = in.Focus() // its command only blinks
	return in
}

func (p *prompt) update(msg tea.Msg) answer {
	switch keyOf(msg) {
	case "esc", "ctrl+c":
		return answer{done: true}
	case "enter":
		request, err := p.check(p.input.Value())
		if err != nil {
			return answer{}
		}
		return answer{done: true, request: request}
	case "ctrl+y":
		if p.cli != nil {
			return answer{request: copyRequest{"command", p.cli(p.input.Value())}}
		}
		return answer{}
	}
	if _, click := msg.(boxClickMsg); click {
		return answer{}
	}
	var cmd tea.Cmd
	p.input, cmd = p.input.Update(msg)
	return answer{cmd: cmd}
}

func (p *prompt) view(s *theme.Styles, w, _ int) []string {
	w = min(w, 76)
	p.input.SetWidth(w - 8)
	lines := []string{s.Key.On("> ") + p.input.View()}
	if _, err := p.check(p.input.Value()); err != nil && p.input.Value() != "" {
		lines = append(lines, s.FieldWrong.On(screen.Cut(safe(err.Error()), w-4)))
		if hint := core.HintOf(err); hint != "" {
			lines = append(lines, s.Faint.On(screen.Cut(safe(hint), w-4)))
		}
	} else {
		for _, l := range screen.Prose(safe(p.hint), w-4) {
			lines = append(lines, s.Faint.On(l))
		}
	}
	if p.cli != nil {
		lines = append(lines, s.Faint.On(screen.Cut("ctrl+y copies: "+safe(p.cli(p.input.Value())), w-4)))
	}
	return frame(s, p.title, lines, w)
}
