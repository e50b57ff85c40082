package reply

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// A capture keeps the beginning and the end of the output for any sizes of the writes.
func FuzzCapture(f *testing.F) {
	f.Add(uint32(10), uint16(3))
	f.Add(uint32(captureSide), uint16(1000))
	f.Add(uint32(3*captureSide+17), uint16(65535))
	f.Fuzz(func(t *testing.T, size uint32, step uint16) {
		size %= 4 * captureSide
		all := make([]byte, size)
		for i := range all {
			all[i] = byte(i * 7 >> 3)
		}
		var c Capture
		for rest := all; len(rest) > 0; {
			n := min(len(rest), int(step)+1)
			if written, err := c.Write(rest[:n]); written != n || err != nil {
				t.Fatal(written, err)
			}
			rest = rest[n:]
		}
		head, end, total := c.Snapshot()
		if total != int64(size) {
			t.Fatalf("counted %d of %d", total, size)
		}
		if end == nil {
			if !bytes.Equal(head, all) {
				t.Fatal("the whole is not the whole")
			}
			return
		}
		if !bytes.Equal(head, all[:captureSide]) || !bytes.Equal(end, all[len(all)-captureSide:]) {
			t.Fatal("beginning or end is wrong")
		}
	})
}

func FuzzClip(f *testing.F) {
	f.Add("plain text\nwith lines\n", 10)
	f.Add(strings.Repeat("ü", 500), 33)
	f.Fuzz(func(t *testing.T, text string, budget int) {
		budget = BudgetOf(budget)
		got := Clip([]byte(text), nil, int64(len(text)), budget, false, "sandbox://x")
		if !utf8.ValidString(got.Text) {
			t.Fatalf("%q is not text", got.Text)
		}
		if n := utf8.RuneCountInString(got.Text); n > budget+200 {
			t.Fatalf("%d characters for a budget of %d", n, budget)
		}
		whole := string(TrimEnd(TrimStart([]byte(text))))
		if !got.Cut && IsText([]byte(whole)) && !strings.Contains(whole, "\x1b") && got.Text != whole {
			t.Fatal("text is missing, and Cut is false")
		}
	})
}

// A few bytes that are not UTF-8 hide no text, wherever they are.
func TestClipReplacesBytes(t *testing.T) {
	log := strings.Repeat("all is well\n", 300_000) + "FAILED\n"
	for _, at := range []int{0, 100, len(log) - 8, len(log) - 1} {
		data := []byte(log)
		data[at] = 0xe9
		got := Clip(data[:captureSide], data[len(data)-captureSide:], int64(len(data)), 1000, true, "sandbox://x")
		if got.Binary || !strings.Contains(got.Text, "FAILED") || !strings.Contains(got.Text, "\uFFFD") ||
			!strings.HasSuffix(got.Text, ReplacedNote(1)) {
			t.Errorf("byte %d: %q", at, got.Text)
		}
	}
	for _, short := range []string{"caf\xe9 au lait", "one\x00two three", "at the end \xe9"} {
		got := Clip([]byte(short), nil, int64(len(short)), 1000, true, "sandbox://x")
		if got.Cut || got.Binary || !strings.HasSuffix(got.Text, ReplacedNote(1)) {
			t.Errorf("%q: %+v", short, got)
		}
	}
	const colors = "\x1b]0;title\a\x1b[1;31mFAILED\x1b[0m\x1b[K \x1b]8;;http://x\x1b\\link \x1b]0;no end\nlast"
	got := Clip([]byte(colors), nil, int64(len(colors)), 1000, true, "sandbox://x")
	if got.Text != "FAILED link \x1b]0;no end\nlast" {
		t.Errorf("colors: %q", got.Text)
	}
	binary := bytes.Repeat([]byte{0x7f, 'E', 'L', 'F', 0, 0, 1, 0xff}, 10)
	if got = Clip(binary, nil, int64(len(binary)), 1000, true, "sandbox://x"); !got.Binary || !got.Cut {
		t.Errorf("a binary: %+v", got)
	}
}
