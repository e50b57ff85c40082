package format

import (
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// Words splits a line into words as a shell does: blanks separate words; quotes and backslashes escape.
// It expands nothing. KindUsage: unclosed quote.
func Words(text string) ([]string, error) {
	var list []string
	var word strings.Builder
	var open byte // the quote that is open
	begun, escaped := false, false
	for i := range len(text) {
		switch c := text[i]; {
		case escaped:
			if open == '"' && c != '"' && c != '\\' {
				word.WriteByte('\\')
			}
			word.WriteByte(c)
			escaped = false
		case c == '\\' && open != '\'':
			begun, escaped = true, true
		case open != 0 && c == open:
			open = 0
		case open == 0 && (c == '\'' || c == '"'):
			begun, open = true, c
		case open == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if begun {
				list = append(list, word.String())
				word.Reset()
			}
			begun = false
		default:
			begun = true
			word.WriteByte(c)
		}
	}
	if open != 0 || escaped {
		return nil, core.Errorf(core.KindUsage, "parse", "", "unclosed quote")
	}
	if begun {
		list = append(list, word.String())
	}
	return list, nil
}
