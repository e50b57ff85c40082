package tui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/seed-0724f904/sb/tui/theme"
)

// finder is a search in the lines of a tab.
type finder struct {
	query string
	// current is the line of the current match, or -1.
	current int
}

func newFinder(query string) finder { return finder{query, -1} }

// next returns the next line with the query after (step 1) or before (step -1) a line, or -1. It searches the lines
// from first to end-1 and wraps around.
func (f *finder) next(step, from, first, end int, line func(n int) string) int {
	if f.query == "" {
		return -1
	}
	query, n := strings.ToLower(f.query), from
	for range end - first {
		if n += step; n >= end {
			n = first
		} else if n < first {
			n = end - 1
		}
		if strings.Contains(strings.ToLower(ansi.Strip(line(n))), query) {
			f.current = n
			return n
		}
	}
	return -1
}

// highlight marks every match of query in a line. A line with a match loses its own colors.
func highlight(s *theme.Styles, text, query string, current bool) string {
	plain := ansi.Strip(text)
	lower, query := strings.ToLower(plain), strings.ToLower(query)
	if query == "" || !strings.Contains(lower, query) || len(lower) != len(plain) {
		return text
	}
	p := s.Match
	if current {
		p = s.MatchCurrent
	}
	var b strings.Builder
	for {
		i := strings.Index(lower, query)
		if i < 0 {
			b.WriteString(plain)
			return b.String()
		}
		b.WriteString(plain[:i])
		b.WriteString(p.On(plain[i : i+len(query)]))
		plain, lower = plain[i+len(query):], lower[i+len(query):]
	}
}
