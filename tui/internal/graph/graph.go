package graph

import "strings"

const blocks = " ▁▂▃▄▅▆▇█"

// Spark draws the last width values in one line of width cells. A value of top or more is a full block. A value
// above zero is never empty.
func Spark(values []float64, top float64, width int) string {
	return Area(values, top, width, 1)[0]
}

// Area draws the last width values as columns of a graph with height rows. The first row is the top.
func Area(values []float64, top float64, width, height int) []string {
	if len(values) > width {
		values = values[len(values)-width:]
	}
	levels := []rune(blocks)
	steps := len(levels) - 1
	rows := make([]string, height)
	for row := range height {
		var b strings.Builder
		b.WriteString(strings.Repeat(" ", max(0, width-len(values))))
		for _, v := range values {
			level := 0
			if top > 0 && v > 0 {
				level = min(max(int(v/top*float64(height*steps)+0.5), 1), height*steps)
			}
			below := (height - 1 - row) * steps
			b.WriteRune(levels[min(max(level-below, 0), steps)])
		}
		rows[row] = b.String()
	}
	return rows
}
