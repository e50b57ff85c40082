package tui

import (
	"fmt"
	"strings"
	"testing"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// The goldens of a frame are two: its text, the same in every theme, and how its cells look in one theme.

// frameText returns a frame as text, without trailing blanks. Equal lines are written once, with their number.
func frameText(lines []string) string {
	plain := make([]string, len(lines))
	for i, l := range lines {
		plain[i] = strings.TrimRight(ansi.Strip(l), " ")
	}
	return squeeze(plain)
}

// frameStyles returns the styles of a frame: a legend with a letter for each style, then each line as runs of a number
// of cells and their style. "." is no style. An invisible blank belongs to the run before it.
func frameStyles(t testing.TB, lines []string, w, h int) string {
	t.Helper()
	screen := vt.NewEmulator(w, h)
	if _, err := screen.WriteString(strings.Join(lines, "\r\n")); err != nil {
		t.Fatal(err)
	}
	letters, legend := map[string]string{"": "."}, &strings.Builder{}
	letter := func(cell *uv.Cell) string {
		style := strings.TrimSuffix(strings.TrimPrefix(cell.Style.String(), "\x1b["), "m")
		if letters[style] == "" {
			n := len(letters) - 1
			letters[style] = string(rune('a'+n%26)) + strings.Repeat("'", n/26)
			fmt.Fprintf(legend, "%s %s\n", letters[style], style)
		}
		return letters[style]
	}
	rows := make([]string, h)
	for y := range h {
		var row strings.Builder
		style, begin, seen := ".", 0, 0
		for x := range w {
			cell := screen.CellAt(x, y)
			if cell == nil || cell.Width == 0 || unseen(cell) {
				continue
			}
			if next := letter(cell); next != style {
				if x > begin {
					fmt.Fprintf(&row, "%d%s", x-begin, style)
				}
				style, begin = next, x
			}
			seen = x + cell.Width
		}
		if seen > begin && style != "." {
			fmt.Fprintf(&row, "%d%s", seen-begin, style)
		}
		rows[y] = row.String()
	}
	return legend.String() + squeeze(rows)
}

// unseen reports whether a cell is blank and has no visible attribute.
func unseen(cell *uv.Cell) bool {
	s := cell.Style
	return strings.TrimSpace(cell.Content) == "" && s.Bg == nil && s.Underline == uv.UnderlineNone &&
		s.Attrs&(uv.AttrReverse|uv.AttrStrikethrough) == 0
}

// squeeze writes runs of equal lines once, with their number.
func squeeze(lines []string) string {
	var b strings.Builder
	for i := 0; i < len(lines); {
		same := 1
		for i+same < len(lines) && lines[i+same] == lines[i] {
			same++
		}
		if same > 1 {
			fmt.Fprintf(&b, "%d×", same)
		}
		b.WriteString("|" + lines[i] + "\n")
		i += same
	}
	return b.String()
}
