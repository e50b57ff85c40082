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

// frameText is a frame as text: what follows the last letter of a line is left out (each line is as wide as the screen,
// checkFrame says so), and of equal lines one is written with their number.
func frameText(lines []string) string {
	plain := make([]string, len(lines))
	for i, l := range lines {
		plain[i] = strings.TrimRight(ansi.Strip(l), " ")
	}
	return squeeze(plain)
}

// frameStyles is how a frame looks: a letter for each style with its attributes, and each line as a number of cells and their
// style, one after the other; "." is no style. A blank of which nothing is seen belongs to what stands before it.
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

// unseen says whether a cell is blank, and no attribute shows on it.
func unseen(cell *uv.Cell) bool {
	s := cell.Style
	return strings.TrimSpace(cell.Content) == "" && s.Bg == nil && s.Underline == uv.UnderlineNone && s.Attrs&(uv.AttrReverse|uv.AttrStrikethrough) == 0
}

// squeeze writes equal lines once.
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
