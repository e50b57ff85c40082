package screen

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Width returns the number of cells of text: the sum of its characters, as in terminals without grapheme clusters
// and in Bubble Tea (see oneMeasure). All code that measures or cuts text must count the same way.
func Width(text string) int {
	if ascii(text) {
		return len(text)
	}
	return ansi.StringWidthWc(text)
}

// ascii reports whether each byte of text takes one cell.
func ascii(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] >= 0x7f {
			return false
		}
	}
	return true
}

// Fit pads or cuts text to exactly cells cells. Cut text ends in "…".
func Fit(text string, cells int) string {
	if cells <= 0 {
		return ""
	}
	w := Width(text)
	if w > cells {
		text = Cut(text, cells)
		w = Width(text)
	}
	return text + Blanks(cells-w)
}

// FitRight is Fit with the text aligned to the right.
func FitRight(text string, cells int) string {
	if w := Width(text); w < cells {
		return Blanks(cells-w) + text
	}
	return Fit(text, cells)
}

// Cut cuts text to at most cells cells. Cut text ends in "…".
func Cut(text string, cells int) string {
	switch {
	case cells <= 0:
		return ""
	case ascii(text) && len(text) <= cells:
		return text
	case ascii(text):
		return text[:cells-1] + "…"
	}
	return ansi.TruncateWc(text, cells, "…")
}

// Prose wraps text between words.
func Prose(text string, cells int) []string {
	return strings.Split(ansi.WrapWc(text, max(1, cells), ""), "\n")
}

// Blanks returns n blanks, none if n is negative.
func Blanks(n int) string {
	const fifty = "                                                  "
	const many = fifty + fifty
	switch {
	case n <= 0:
		return ""
	case n <= len(many):
		return many[:n]
	}
	return strings.Repeat(" ", n)
}

// Block pads or cuts lines to a block of w by h cells.
func Block(lines []string, w, h int) []string {
	out := make([]string, h)
	for i := range out {
		if i < len(lines) {
			out[i] = Fit(lines[i], w)
		} else {
			out[i] = Blanks(w)
		}
	}
	return out
}

// Overlay draws box over base, with its top left corner at x, y. The lines of base are cells wide.
func Overlay(base, box []string, x, y, cells int) {
	for i, line := range box {
		row := y + i
		if row < 0 || row >= len(base) {
			continue
		}
		right := x + Width(line)
		base[row] = Fit(Fit(ansi.TruncateWc(base[row], x, ""), x)+line+ansi.TruncateLeftWc(base[row], right, ""), cells)
	}
}

// JoinSides joins three blocks of the same height side by side.
func JoinSides(left, middle, right []string) []string {
	out := make([]string, len(left))
	for i := range left {
		out[i] = left[i] + middle[i] + right[i]
	}
	return out
}
