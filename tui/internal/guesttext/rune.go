package guesttext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// simplifier replaces emoji sequences if terminals draw them with different widths. It keeps the first picture of a
// joined sequence, drops skin tones and variations, and turns flags into the letters of their country.
type simplifier struct{ joined bool }

// simplify returns the replacement for r, or false to draw nothing.
func (s *simplifier) simplify(r rune) (rune, bool) {
	const joiner, pictures = 0x200d, 0x2190
	after := s.joined
	s.joined = r == joiner
	switch {
	case r == joiner, r >= 0xfe00 && r <= 0xfe0f, r == 0x20e3, r >= 0x1f3fb && r <= 0x1f3ff:
		s.joined = s.joined || after
		return 0, false
	case after && r >= pictures:
		return 0, false
	case r >= 0x1f1e6 && r <= 0x1f1ff:
		return 'A' + r - 0x1f1e6, true
	}
	if wider(r) {
		return utf8.RuneError, true
	}
	return r, !hidden(r)
}

// controlPictures is the Unicode block with pictures of the control characters: U+2400 for NUL and so on.
const controlPictures = 0x2400

// hidden reports whether r is invisible or misleading on a terminal: C1 controls, bidirectional controls, line
// separators, tags and other format characters.
func hidden(r rune) bool {
	switch {
	case r >= 0x80 && r < 0xa0, r == 0xad, r == 0x61c, r == 0x180e, r == 0xfeff:
		return true
	case r >= 0x200e && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f:
		return true
	case r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return false
}

// wider reports whether a terminal may draw r wider than its counted width. Such a line would run over its row and
// scroll the screen. These are signs that span the following digits, unassigned characters, and marks newer than glibc
// 2.36. Many terminals use the width tables of that version.
func wider(r rune) bool {
	switch {
	case r < 0x300 || hidden(r) || r == 0x200b || r == 0x200c:
		return false
	case !unicode.IsGraphic(r):
		return !unicode.Is(unicode.Co, r)
	case r == 0xcf3 || r == 0xece || r >= 0x3248 && r <= 0x324f:
		return true
	case r >= 0x10efd && r <= 0x10eff, r == 0x11241, r >= 0x11f00 && r <= 0x11f59, r >= 0x13430 && r <= 0x13455:
		return true
	case r >= 0x1d165 && r <= 0x1d172, r == 0x1e08f, r >= 0x1e4ec && r <= 0x1e4ef:
		return true
	}
	return false
}

// Line makes text safe for one line without colors. It removes escape sequences, turns line breaks and tabs into
// blanks, and shows control characters as pictures.
func Line(text string) string {
	if plain(text) {
		return text
	}
	var b strings.Builder
	var s simplifier
	for rest := []byte(text); len(rest) > 0; {
		if rest[0] == esc {
			n, _ := sequence(rest)
			rest = rest[n:]
			continue
		}
		r, size := utf8.DecodeRune(rest)
		rest = rest[size:]
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case r < ' ' || r == 0x7f:
			b.WriteRune(picture(r))
		default:
			if r, drawn := s.simplify(r); drawn {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

// plain reports whether text is printable ASCII: the common, fast case.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] >= 0x7f {
			return false
		}
	}
	return true
}

func picture(r rune) rune {
	if r == 0x7f {
		return controlPictures + 0x21
	}
	return controlPictures + r
}
