package output

import (
	"io"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
)

// Table is rows of text under headers. It removes control characters from cells, because names and output of sandboxes
// could otherwise control the terminal.
type Table struct {
	headers []string
	rows    [][]string
	color   bool
	width   int
	wrap    bool
}

// NewTable makes a table. It cuts cells at width, the terminal's; 0 is unbounded.
func NewTable(width int, color bool, headers ...string) *Table {
	return &Table{headers: headers, width: width, color: color}
}

// Wrapped continues cells that are too wide on the next line instead of cutting them.
func (t *Table) Wrapped() *Table {
	t.wrap = true
	return t
}

// Row adds a row. It has as many cells as there are headers.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		if row[i] = Clean(cell); row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// Clean makes text safe for one line of a terminal. It removes control characters and escape sequences, and replaces
// line breaks by spaces.
func Clean(text string) string {
	text = ansi.Strip(text)
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || (r >= 0x7f && r < 0xa0):
			return -1
		// Bidirectional controls can reorder text, so that it reads differently.
		case (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069):
			return -1
		}
		return r
	}, text)
}

// Write renders the table without trailing blanks.
func (t *Table) Write(w io.Writer) error {
	cell := lipgloss.NewStyle().PaddingRight(gap)
	header := cell
	if t.color {
		header = cell.Bold(true)
	}
	last := len(t.headers) - 1
	widths := t.widths()
	view := table.New().
		Headers(t.headers...).Rows(t.rows...).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderColumn(false).BorderRow(false).BorderHeader(false).
		Wrap(t.wrap).
		StyleFunc(func(row, column int) lipgloss.Style {
			style := cell
			if row == table.HeaderRow {
				style = header
			}
			if column == last {
				return style.PaddingRight(0).Width(widths[column])
			}
			return style.Width(widths[column] + gap)
		})
	var b strings.Builder
	for line := range strings.SplitSeq(view.String(), "\n") {
		b.WriteString(strings.TrimRight(line, " "))
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// gap is how many blanks are between two columns.
const gap = 2

// widths returns the width of each column's text. If not all columns fit, the widest shrink first, so short columns
// stay whole. The first column, which names the row's subject, shrinks last.
func (t *Table) widths() []int {
	const least = 3
	widths := make([]int, len(t.headers))
	for column, name := range t.headers {
		widths[column] = ansi.StringWidth(name)
		for _, row := range t.rows {
			widths[column] = max(widths[column], ansi.StringWidth(row[column]))
		}
	}
	if t.width > 0 {
		room := t.width - gap*(len(widths)-1)
		shrink(widths[1:], room-widths[0], least)
		shrink(widths, room, 1)
	}
	return widths
}

// shrink reduces the widest until all fit into room or are down to least.
func shrink(widths []int, room, least int) {
	total := 0
	for _, width := range widths {
		total += width
	}
	for ; total > room; total-- {
		widest := 0
		for column, width := range widths {
			if width > widths[widest] {
				widest = column
			}
		}
		if widths[widest] <= least {
			return
		}
		widths[widest]--
	}
}
