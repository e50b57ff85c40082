package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// request is what a dialog or a command asks the root to do. perform has them all.
type request any

// answer is a dialog's answer to a message.
type answer struct {
	// done closes the dialog.
	done bool
	// request is carried out then.
	request request
	cmd     tea.Cmd
}

// dialog is a box over the panes that gets keys first.
type dialog interface {
	// update handles a message. Its place on the screen is the one of the last view.
	update(msg tea.Msg) answer
	// view draws the box, at most so large.
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

// place is where a box stands: in the middle.
func place(box []string, w, h int) (x, y int) {
	if len(box) == 0 {
		return 0, 0
	}
	return max(0, (w-width(box[0]))/2), max(0, (h-len(box))/2)
}

// keyOf is a key press as the key map writes it, or "".
func keyOf(msg tea.Msg) string {
	if key, ok := msg.(tea.KeyPressMsg); ok {
		return key.String()
	}
	return ""
}
