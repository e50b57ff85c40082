package output

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
)

func TestTable(t *testing.T) {
	build := func(width int) string {
		tab := NewTable(width, false, "ID", "NAME", "COMMAND")
		tab.Row("loc-aaaaaaaa", "one", "python3 -c 'print(1)'")
		tab.Row("loc-bbbbbbbb", "", "sleep 1000000000000000000000000000000000000000000000")
		var b bytes.Buffer
		if err := tab.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	wide := build(0)
	want := "ID            NAME  COMMAND\n" +
		"loc-aaaaaaaa  one   python3 -c 'print(1)'\n" +
		"loc-bbbbbbbb  -     sleep 1000000000000000000000000000000000000000000000\n"
	if wide != want {
		t.Errorf("unbounded table:\n%s\nwant:\n%s", wide, want)
	}
	narrow := build(40)
	for line := range strings.SplitSeq(strings.TrimSuffix(narrow, "\n"), "\n") {
		if w := ansi.StringWidth(line); w > 40 {
			t.Errorf("line of %d cells in a table of 40: %q", w, line)
		}
	}
	if n := strings.Count(narrow, "\n"); n != 3 {
		t.Errorf("narrow table has %d lines, want 3:\n%s", n, narrow)
	}
	if !strings.Contains(narrow, "loc-aaaaaaaa  one   python3") {
		t.Errorf("a short cell was cut, too:\n%s", narrow)
	}
}

// A sentence that must not be cut continues on the next line.
func TestWrappedTable(t *testing.T) {
	tab := NewTable(30, false, "FIELD", "GAP").Wrapped()
	tab.Row("network", "who is served there can be asked, too")
	var b bytes.Buffer
	if err := tab.Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := "FIELD    GAP\nnetwork  who is served there\n         can be asked, too\n"; b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":              "plain",
		"a\x1b[31mred\x1b[m": "ared",
		"two\nlines":         "two lines",
		"bell\a\x00":         "bell",
		"\u202Eevil":         "evil",
		"ünïcödé 🎉":          "ünïcödé 🎉",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m",
		119 * time.Minute: "119m", 3 * time.Hour: "3h", 49 * time.Hour: "2d",
	} {
		if got := Span(d); got != want {
			t.Errorf("Span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestListIsNeverNull(t *testing.T) {
	var b bytes.Buffer
	if err := List[int](&b, nil); err != nil {
		t.Fatal(err)
	}
	if b.String() != "[]\n" {
		t.Errorf("got %q", b.String())
	}
}
