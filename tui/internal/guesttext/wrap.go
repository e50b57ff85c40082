package guesttext

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Wrap cuts a line into pieces of at most width cells. Each piece sets its own colors. Wrap never splits a character
// and drops one that is wider than width.
func Wrap(line string, width int) []string {
	if width <= 0 {
		return nil
	}
	if plain(line) {
		pieces := make([]string, 0, len(line)/width+1)
		for len(line) > width {
			pieces = append(pieces, line[:width])
			line = line[width:]
		}
		return append(pieces, line)
	}
	var pieces []string
	var piece strings.Builder
	color, used := "", 0
	flush := func() {
		if color != "" {
			piece.WriteString(reset)
		}
		pieces = append(pieces, piece.String())
		piece.Reset()
		piece.WriteString(color)
		used = 0
	}
	for len(line) > 0 {
		seq, cells, n, _ := ansi.DecodeSequenceWc(line, ansi.NormalState, nil)
		line = line[n:]
		if cells == 0 && seq[0] == esc {
			color = seq
			if seq == reset {
				color = ""
			}
			piece.WriteString(seq)
			continue
		}
		if cells > width {
			continue
		}
		if used+cells > width {
			flush()
		}
		piece.WriteString(seq)
		used += cells
	}
	flush()
	return pieces
}
