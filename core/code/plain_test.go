package code

import (
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// The output of bash passes as it is, and its marked lines are events, in any pieces.
func TestMarkedLines(t *testing.T) {
	const errs = "\x1e{\"type\":\"hello\",\"protocol\":1}\nwarn \u00e9\n\x1e{\"type\":\"begin\"}\nmore\x1e{\"type\":\"end\",\"ok\":true}\n"
	for size := 1; size < len(errs); size++ {
		var events []Event
		b := newBridge(Bash)
		b.emit = func(e Event) { events = append(events, e) }
		stdout, stderr := b.streams()
		if _, err := stdout.Write([]byte("out\xff")); err != nil {
			t.Fatal(err)
		}
		for rest := errs; rest != ""; {
			n := min(size, len(rest))
			if _, err := stderr.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		end, err := b.result(core.Exit{})
		if err != nil || !end.OK {
			t.Fatalf("%+v, %v", end, err)
		}
		said := map[EventType]string{}
		for _, e := range events {
			said[e.Type] += e.Text
		}
		if said[EventStdout] != "out\ufffd" || said[EventStderr] != "warn \u00e9\nmore" {
			t.Errorf("in pieces of %d: %q", size, said)
		}
	}
}

// NewReplay recognizes the runs of code by their command.
func TestReplay(t *testing.T) {
	for _, l := range Languages() {
		run := l.command("run", "python.default", "0.000")
		if _, _, ok := NewReplay(run, func(Event) {}); !ok {
			t.Errorf("%q is no run", run)
		}
		if _, _, ok := NewReplay(l.command("ls"), func(Event) {}); ok {
			t.Errorf("a list of %s is a run", l)
		}
	}
	for _, command := range []string{"", "python3", "python3 -c 1", "bash -c ls", "node -e 1 -- run"} {
		if _, _, ok := NewReplay(strings.Fields(command), func(Event) {}); ok {
			t.Errorf("%q is a run", command)
		}
	}
}

func FuzzMarkedLines(f *testing.F) {
	f.Add([]byte("a\x1e{\"type\":\"end\"}\nb\x1e\x1e\n"), 3)
	f.Fuzz(func(t *testing.T, errs []byte, size int) {
		b := newBridge(Bash)
		b.emit = func(Event) {}
		b.serve = func() error { return nil }
		_, stderr := b.streams()
		for size = max(size, 1); len(errs) > 0; errs = errs[min(size, len(errs)):] {
			if _, err := stderr.Write(errs[:min(size, len(errs))]); (err != nil) != (b.refused() != nil) {
				t.Fatal(err)
			}
		}
	})
}
