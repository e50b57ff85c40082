package output

import (
	"io"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
)

// Table is rows of text under headers. Cells are cleaned of control characters,
// so that what a sandbox named or wrote cannot drive the terminal.
type Table struct {
	headers []string
	rows    [][]string
	colour  bool
	width   int
}

// NewTable makes a table. width is the terminal's, at which cells are cut; 0 is unbounded.
func NewTable(width int, colour bool, headers ...string) *Table {
	return &Table{headers: headers, width: width, colour: colour}
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

// Clean makes text safe for one line of a terminal: control characters and
// escape sequences are removed, line breaks become spaces.
func Clean(text string) string {
	text = ansi.Strip(text)
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r < ' ' || (r >= 0x7f && r < 0xa0):
			return -1
		// Bidirectional controls can make text read as what it is not.
		case (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069):
			return -1
		}
		return r
	}, text)
}

// Write renders the table without trailing blanks.
func (t *Table) Write(w io.Writer) error {
	const gap = 2
	cell := lipgloss.NewStyle().PaddingRight(gap)
	header := cell
	if t.colour {
		header = cell.Bold(true)
	}
	last := len(t.headers) - 1
	view := table.New().
		Headers(t.headers...).Rows(t.rows...).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderColumn(false).BorderRow(false).BorderHeader(false).
		Wrap(false).
		StyleFunc(func(row, column int) lipgloss.Style {
			style := cell
			if row == table.HeaderRow {
				style = header
			}
			if column == last {
				style = style.PaddingRight(0)
			}
			return style
		})
	if t.width > 0 && t.naturalWidth(gap) > t.width {
		view = view.Width(t.width)
	}
	var b strings.Builder
	for line := range strings.SplitSeq(view.String(), "\n") {
		b.WriteString(strings.TrimRight(line, " "))
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) naturalWidth(gap int) int {
	total := gap * (len(t.headers) - 1)
	for column, name := range t.headers {
		widest := ansi.StringWidth(name)
		for _, row := range t.rows {
			widest = max(widest, ansi.StringWidth(row[column]))
		}
		total += widest
	}
	return total
}
