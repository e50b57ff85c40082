package guesttext

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
)

// lines writes output in one piece and byte by byte, and fails unless both give the same lines.
func lines(t *testing.T, output string) []string {
	t.Helper()
	split := func(size int) []string {
		var s Splitter
		var got []string
		for rest := []byte(output); len(rest) > 0; {
			n := min(size, len(rest))
			s.Write(rest[:n], func(line string) { got = append(got, line) })
			rest = rest[n:]
		}
		return append(got, s.Partial())
	}
	whole := split(len(output) + 1)
	if diff := cmp.Diff(whole, split(1)); diff != "" {
		t.Errorf("the lines differ when written byte by byte:\n%s", diff)
	}
	return whole
}

func TestSplitter(t *testing.T) {
	for name, test := range map[string]struct {
		in   string
		want []string
	}{
		"lines":    {"one\ntwo\r\nthree", []string{"one", "two", "three"}},
		"progress": {"10%\r20%\r100%\ndone\n", []string{"100%", "done", ""}},
		"tab":      {"a\tb\n", []string{"a       b", ""}},
		"color":    {"\x1b[31mred\x1b[m plain\n", []string{"\x1b[0;31mred\x1b[0m plain", ""}},
		"color over lines": {
			"\x1b[1;32mone\ntwo\x1b[0m\nthree\n",
			[]string{"\x1b[0;1;32mone\x1b[0m", "\x1b[0;1;32mtwo\x1b[0m", "three", ""},
		},
		"256 and true color": {
			"\x1b[38;5;208ma\x1b[48:2::1:2:3mb\n",
			[]string{"\x1b[0;38;5;208ma\x1b[0;38;5;208;48;2;1;2;3mb\x1b[0m", ""},
		},
		"conceal and blink":  {"\x1b[8mhidden\x1b[5mblinks\n", []string{"hiddenblinks", ""}},
		"title":              {"a\x1b]0;evil\x07b\x1b]2;evil\x1b\\c\n", []string{"abc", ""}},
		"clipboard":          {"a\x1b]52;c;ZXZpbA==\x07b\n", []string{"ab", ""}},
		"hyperlink":          {"\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\\n", []string{"text", ""}},
		"cursor and screen":  {"\x1b[2J\x1b[H\x1b[10;10Hx\x1b[?1049h\x1b[?25l\x1b7\x1b8y\n", []string{"xy", ""}},
		"keyboard mode":      {"\x1b[>4;2mx\x1b[?1mx\n", []string{"xx", ""}},
		"character sets":     {"\x1b(0x\x1b#8y\x0e\n", []string{"xy␎", ""}},
		"query":              {"\x1b[c\x1b[6n\x1bZ\x05x\n", []string{"␅x", ""}},
		"device strings":     {"\x1bPq evil\x1b\\a\x1b_evil\x1b\\b\x1b^evil\x1b\\c\n", []string{"abc", ""}},
		"unterminated title": {"\x1b]0;evil\nnext\n", []string{"", "next", ""}},
		"C1 controls":        {"a\u009b31mb\u0085c\n", []string{"a31mbc", ""}},
		"raw C1":             {"a\x9b31mb\n", []string{"a\ufffd31mb", ""}},
		"bidi":               {"user\u202etxt\u2066.exe\n", []string{"usertxt.exe", ""}},
		"binary":             {"\x00\x01\x7f\xff\n", []string{"␀␁␡\ufffd", ""}},
		"bell and backspace": {"a\a\bb\n", []string{"ab", ""}},
		"wide":               {"日本 👩‍💻 é\n", []string{"日本 👩 é", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, lines(t, test.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An unterminated sequence hides only a bounded part of the text after it.
func TestEndlessSequences(t *testing.T) {
	for _, begin := range []string{"\x1b]0;", "\x1b[", "\x1bP", "\x1b "} {
		var s Splitter
		var got strings.Builder
		s.Write([]byte(begin), func(string) {})
		for range 100 {
			s.Write(bytes.Repeat([]byte(" 1"), 100), func(line string) { got.WriteString(line) })
		}
		s.Write([]byte("\nend\n"), func(line string) { got.WriteString(line) })
		if !strings.HasSuffix(got.String(), "end") || got.Len() < 10000 {
			t.Errorf("%q: %d bytes were emitted", begin, got.Len())
		}
		if len(s.held) > maxSequence {
			t.Errorf("%q: %d bytes are held", begin, len(s.held))
		}
	}
}

func TestLongLinesAreCut(t *testing.T) {
	longest, total := 0, 0
	var s Splitter
	s.Write([]byte(strings.Repeat("é", 100_000)), func(line string) {
		longest, total = max(longest, len(line)), total+len(line)
		if strings.Contains(line, "\ufffd") {
			t.Error("a character was cut")
		}
	})
	if longest > maxLine || total+len(s.Partial()) != 200_000 {
		t.Errorf("longest %d, total %d", longest, total+len(s.Partial()))
	}
}

// safe reports whether text has only printable characters and SGR sequences.
func safe(text string) bool {
	for rest := []byte(text); len(rest) > 0; {
		if rest[0] == esc {
			n, whole := sequence(rest)
			if !whole || rest[n-1] != 'm' || !isSGR(rest[2:n-1]) {
				return false
			}
			rest = rest[n:]
			continue
		}
		if rest[0] < 0x20 || rest[0] == 0x7f {
			return false
		}
		rest = rest[1:]
	}
	return true
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("\x1b[31mx\x1b]0;t\x07\n"), 3)
	f.Add([]byte("\x1b]52;c;x\x1b\\\u009b\xff\r\t"), 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		var s Splitter
		check := func(line string) {
			if !safe(line) || !safe(Line(line)) {
				t.Errorf("%q is not safe", line)
			}
			for _, piece := range Wrap(line, 7) {
				if !safe(piece) || ansi.StringWidthWc(piece) > 7 {
					t.Errorf("piece %q of %q", piece, line)
				}
			}
		}
		for rest := data; len(rest) > 0; {
			n := min(max(size%64, 1), len(rest))
			s.Write(rest[:n], check)
			rest = rest[n:]
		}
		check(s.Partial())
		check(Line(string(data)))
	})
}

// The time for hostile text is linear in its length.
func TestLineOfManySequences(t *testing.T) {
	text := strings.Repeat("\x1b[", 1<<20)
	if got := Line(text); strings.ContainsRune(got, esc) {
		t.Error("escape characters are left")
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                     "plain",
		"a\x1b[31mb\x1b]0;t\x07c":   "abc",
		"two\nlines\tand\rmore":     "two lines and more",
		"\u202Eevil\x00\x1b":        "evil␀",
		"日本 🎉":                      "日本 🎉",
		"half \x1b]0;unterminated ": "half ",
	} {
		if got := Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
}

// The result has the same width with and without grapheme clusters.
func TestEmojiAreAsWideEverywhere(t *testing.T) {
	for in, want := range map[string]string{
		"👩‍💻": "👩", "👩‍👩‍👧‍👦x": "👩x", "❤️": "❤", "🇩🇪": "DE", "1️⃣": "1", "👍🏽!": "👍!", "🏴‍☠️": "🏴",
		"日本 é ☕": "日本 é ☕", "a\u200db": "ab",
	} {
		got := Line(in)
		if got != want || ansi.StringWidth(got) != ansi.StringWidthWc(got) {
			t.Errorf("%q becomes %q, %d or %d cells", in, got, ansi.StringWidth(got), ansi.StringWidthWc(got))
		}
		var s Splitter
		s.Write([]byte(in), nil)
		if s.Partial() != want {
			t.Errorf("%q is split to %q", in, s.Partial())
		}
	}
}

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		in    string
		width int
		want  []string
	}{
		{"", 5, []string{""}},
		{"abcdef", 3, []string{"abc", "def"}},
		{"abcdefg", 3, []string{"abc", "def", "g"}},
		{"日本語", 3, []string{"日", "本", "語"}},
		{"日", 1, []string{""}},
		{"\x1b[0;31mabcd\x1b[0m!", 2, []string{"\x1b[0;31mab\x1b[0m", "\x1b[0;31mcd\x1b[0m", "!"}},
		{"x", 0, nil},
	} {
		if diff := cmp.Diff(test.want, Wrap(test.in, test.width)); diff != "" {
			t.Errorf("Wrap(%q, %d): %s", test.in, test.width, diff)
		}
	}
}

func BenchmarkSplitter(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	var data []byte
	for len(data) < 1<<20 {
		data = append(data, strings.Repeat("some output of a program ", random.IntN(4))...)
		data = append(data, "\x1b[32mok\x1b[0m ü\n"...)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		var s Splitter
		s.Write(data, func(string) {})
	}
}
