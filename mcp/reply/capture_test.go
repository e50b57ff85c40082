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
		if !got.Cut && got.Text != string(trimPartial([]byte(text))) {
			t.Fatal("text is missing, and Cut is false")
		}
	})
}
