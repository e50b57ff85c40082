package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
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
	view(s *styles, w, h int) []string
}

// frame draws a border with a title around lines.
func frame(s *styles, title string, lines []string, w int) []string {
	inner := w - 4
	head := s.frame.on("╭─ ") + s.dialogTitle.on(cut(safe(title), max(1, inner-2))) + " "
	out := []string{head + s.frame.on(strings.Repeat("─", max(0, w-1-width(head)))+"╮")}
	side := s.frame.on("│")
	for _, l := range lines {
		out = append(out, side+" "+fit(l, inner)+" "+side)
	}
	return append(out, s.frame.on("╰"+strings.Repeat("─", max(0, w-2))+"╯"))
}

// place returns the top left corner of a centered box.
func place(box []string, w, h int) (x, y int) {
	if len(box) == 0 {
		return 0, 0
	}
	return max(0, (w-width(box[0]))/2), max(0, (h-len(box))/2)
}

// keyOf returns the name of a pressed key, as in the key map, or "".
func keyOf(msg tea.Msg) string {
	if key, ok := msg.(tea.KeyPressMsg); ok {
		return key.String()
	}
	return ""
}
