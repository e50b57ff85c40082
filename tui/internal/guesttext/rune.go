package guesttext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// simplifier takes what terminals disagree about out of emoji: how wide a sequence of several
// characters is. The first picture of a joined sequence stays, skin tones and variations go, and
// flags become the letters of their country.
type simplifier struct{ joined bool }

// simplify returns what is drawn for r; false draws nothing.
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

// controlPictures is where Unicode shows the control characters: U+2400 for NUL and so on.
const controlPictures = 0x2400

// hidden says whether a terminal draws nothing for r, or draws it as what it is not: C1
// controls, bidirectional controls, separators of lines, tags and other formats.
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

// wider says whether terminals may draw r wider than it is counted, so that a line would run over the end of its row and
// push the screen up: what stands over the digits that follow, what Unicode has not assigned, and marks that
// came after glibc 2.36, whose widths terminals of 2022 have.
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

// Line makes text safe for one line without colours: escape sequences are removed, line
// breaks and tabs become blanks, control characters are shown as pictures.
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

// plain says whether text is printable ASCII, as nearly all is.
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
