package tui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// rect is a part of the screen in cells.
type rect struct{ x, y, w, h int }

func (r rect) contains(x, y int) bool {
	return x >= r.x && x < r.x+r.w && y >= r.y && y < r.y+r.h
}

func (r rect) empty() bool { return r.w <= 0 || r.h <= 0 }

// width returns the number of cells of text: the sum of its characters, as in terminals without grapheme clusters
// and in Bubble Tea (see oneMeasure). All code that measures or cuts text must count the same way.
func width(text string) int {
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

// fit pads or cuts text to exactly cells cells. Cut text ends in "…".
func fit(text string, cells int) string {
	if cells <= 0 {
		return ""
	}
	w := width(text)
	if w > cells {
		text = cut(text, cells)
		w = width(text)
	}
	return text + blanks(cells-w)
}

// fitRight is fit with the text aligned to the right.
func fitRight(text string, cells int) string {
	if w := width(text); w < cells {
		return blanks(cells-w) + text
	}
	return fit(text, cells)
}

// cut cuts text to at most cells cells. Cut text ends in "…".
func cut(text string, cells int) string {
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

// prose wraps text between words.
func prose(text string, cells int) []string {
	return strings.Split(ansi.WrapWc(text, max(1, cells), ""), "\n")
}

func blanks(n int) string {
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

// block pads or cuts lines to a block of w by h cells.
func block(lines []string, w, h int) []string {
	out := make([]string, h)
	for i := range out {
		if i < len(lines) {
			out[i] = fit(lines[i], w)
		} else {
			out[i] = blanks(w)
		}
	}
	return out
}

// overlay draws box over base, with its top left corner at x, y. The lines of base are cells wide.
func overlay(base, box []string, x, y, cells int) {
	for i, line := range box {
		row := y + i
		if row < 0 || row >= len(base) {
			continue
		}
		right := x + width(line)
		base[row] = fit(fit(ansi.TruncateWc(base[row], x, ""), x)+line+ansi.TruncateLeftWc(base[row], right, ""), cells)
	}
}

// joinSides joins three blocks of the same height side by side.
func joinSides(left, middle, right []string) []string {
	out := make([]string, len(left))
	for i := range left {
		out[i] = left[i] + middle[i] + right[i]
	}
	return out
}
