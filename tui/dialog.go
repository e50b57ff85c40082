package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-0724f904/sb/tui/internal/screen"
	"github.com/seed-0724f904/sb/tui/theme"
)

// request asks the root for an action. perform.go has all of them.
type request any

// answer is a dialog's answer to a message.
type answer struct {
	// done closes the dialog.
	done bool
	// request, when not nil, is carried out afterwards.
	request request
	cmd     tea.Cmd
}

// dialog is a box over the panes. The topmost dialog gets all keys.
type dialog interface {
	// update handles a message. Clicks refer to the box that view drew last.
	update(msg tea.Msg) answer
	// view draws the box in at most w by h cells.
	view(s *theme.Styles, w, h int) []string
}

// frame draws a border with a title around lines.
func frame(s *theme.Styles, title string, lines []string, w int) []string {
	inner := w - 4
	head := s.Frame.On("╭─ ") + s.DialogTitle.On(screen.Cut(safe(title), max(1, inner-2))) + " "
	out := []string{head + s.Frame.On(strings.Repeat("─", max(0, w-1-screen.Width(head)))+"╮")}
	side := s.Frame.On("│")
	for _, l := range lines {
		out = append(out, side+" "+screen.Fit(l, inner)+" "+side)
	}
	return append(out, s.Frame.On("╰"+strings.Repeat("─", max(0, w-2))+"╯"))
}

// place returns the top left corner of a centered box.
func place(box []string, w, h int) (x, y int) {
	if len(box) == 0 {
		return 0, 0
	}
	return max(0, (w-screen.Width(box[0]))/2), max(0, (h-len(box))/2)
}

// keyOf returns the name of a pressed key, as in the key map, or "".
func keyOf(msg tea.Msg) string {
	if key, ok := msg.(tea.KeyPressMsg); ok {
		return key.String()
	}
	return ""
}
