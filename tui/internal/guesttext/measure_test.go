package guesttext

import (
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// Characters that some terminals draw wider than their counted width become a replacement character.
func TestWideCharacters(t *testing.T) {
	for _, r := range []rune{
		0x600, 0x6dd, 0x70f, 0x8e2, 0x110bd, 0x378, 0xfffe, 0x3ffff, 0xcf3, 0x3248, 0x1d165, 0x1e08f,
	} {
		if got := Line("a" + string(r) + "b"); got != "a\ufffdb" {
			t.Errorf("%U becomes %q", r, got)
		}
	}
	for _, same := range []string{"ศิลปะ น้ำ", "नमस्ते", "مُحَمَّد", "e\u0301", "a\u200cb", "\ue0b0", "日本語", "☰"} {
		if got := Line(same); got != same {
			t.Errorf("%q becomes %q", same, got)
		}
	}
}

// A drawn character of width zero is a combining mark.
func TestOnlyMarksTakeNoCell(t *testing.T) {
	for r := rune(0xa0); r <= unicode.MaxRune; r++ {
		drawn := strings.Trim(Line("a"+string(r)+"b"), "ab")
		if drawn == "" || ansi.StringWidthWc(drawn) > 0 || r >= 0x200b && r <= 0x200c {
			continue
		}
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			t.Errorf("%U takes no cell", r)
		}
	}
}

// Wrap keeps the whole text of any script, and no piece is wider than its row.
func TestWrapKeepsEveryScript(t *testing.T) {
	for _, word := range []string{
		"नमस्ते क्षत्रिय ", "น้ำ ที่ ", "\u1112\u1161\u11ab\u1100\u116e\u11a8 ", "العربية ", "தமிழ் ", "日本 ",
	} {
		text := strings.Repeat(word, 50)
		var whole strings.Builder
		for _, piece := range Wrap(text, 79) {
			if w := ansi.StringWidthWc(piece); w > 79 {
				t.Errorf("%q is %d cells wide", piece, w)
			}
			whole.WriteString(piece)
		}
		if whole.String() != text {
			t.Errorf("%q became %q", text, whole.String())
		}
	}
}
