package code

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// reader is a bridge that records the events of a run.
func reader(t testing.TB) (testBridge, *[]Event) {
	t.Helper()
	var events []Event
	b := newBridge(Python)
	b.emit = func(e Event) { events = append(events, e) }
	b.serve = func() error { return nil }
	stdout, _ := b.streams()
	return testBridge{b, stdout}, &events
}

// testBridge is a bridge and the stdout of its command.
type testBridge struct {
	*bridge
	io.Writer
}

func TestEventsOfAnyPieces(t *testing.T) {
	const text = `{"type":"hello","protocol":1}` + "\n" + `{"type":"stdout","text":"a\nb"}` + "\n" +
		`{"type":"result","data":{"text/plain":"1","image/png":"aGk="},"execution_count":3}` + "\n" +
		`{"type":"of a newer version"}` + "\n" + `{"type":"end","ok":true,"files":[{"name":"f","size":2}]}` + "\n"
	for size := 1; size < len(text); size += 7 {
		b, events := reader(t)
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := b.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		end, err := b.result(core.Exit{})
		if err != nil || !end.OK || len(*events) != 3 || (*events)[0].Text != "a\nb" || (*events)[1].Plain() != "1" ||
			string((*events)[1].Media()["image/png"]) != "hi" {
			t.Fatalf("in pieces of %d bytes: %+v, %+v, %v", size, end, *events, err)
		}
	}
}

func TestRefusedEvents(t *testing.T) {
	for text, kind := range map[string]core.Kind{
		"no JSON\n":                              core.KindInternal,
		`{"type":"hello","protocol":2}` + "\n":   core.KindConflict,
		`{"type":"absent","known":true}` + "\n":  core.KindConflict,
		`{"type":"failed","message":"x"}` + "\n": core.KindUnavailable,
		strings.Repeat("x", maxLine+1):           core.KindExhausted,
		// A sandbox cannot make the client send programs or start commands again and again.
		strings.Repeat(`{"type":"absent"}`+"\n", 2):                             core.KindInternal,
		`{"type":"ready"}` + "\n":                                               core.KindInternal,
		`{"type":"absent"}` + "\n" + strings.Repeat(`{"type":"ready"}`+"\n", 2): core.KindInternal,
		`{"type":"stdout","text":["a"]}` + "\n":                                 core.KindInternal,
		`{"type":"end","execution_count":1e400}` + "\n":                         core.KindInternal,
	} {
		b, _ := reader(t)
		_, err := b.Write([]byte(text))
		if _, after := b.Write([]byte("{}\n")); !errors.Is(err, kind) || after == nil {
			t.Errorf("%.60q: %v, then %v", text, err, after)
		}
	}
}

// A session that ends without an end of the run is an error, whatever its exit code is.
func TestEndIsNotInvented(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		exit core.Exit
		kind core.Kind
	}{
		"killed":         {`{"type":"hello","protocol":1}` + "\n", core.Exit{}, core.KindUnavailable},
		"half an event":  {`{"type":"hello","protocol":1}` + "\n" + `{"type":"end"`, core.Exit{}, core.KindUnavailable},
		"no answer":      {"", core.Exit{}, core.KindUnavailable},
		"no interpreter": {"", core.Exit{Code: 127, Message: "not found"}, core.KindUnsupported},
		"broken":         {"", core.Exit{Code: 1}, core.KindUnavailable},
	} {
		b, _ := reader(t)
		if _, err := b.Write([]byte(test.text)); err != nil {
			t.Fatal(name, err)
		}
		if _, err := b.result(test.exit); !errors.Is(err, test.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTimesOfTheSandbox(t *testing.T) {
	for _, seconds := range []float64{0, -1, 1e300, math.NaN(), math.Inf(1)} {
		if got := at(seconds); !got.IsZero() {
			t.Errorf("%v became %v", seconds, got)
		}
	}
	if got := at(1.5); !got.Equal(time.UnixMilli(1500)) {
		t.Error(got)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"type":"hello","protocol":1}` + "\n" + `{"type":"stdout","text":"a"}` + "\n"))
	f.Add([]byte(`{"type":"result","data":{"image/png":1,"text/plain":[]}}` + "\n" + `{"type":"absent"}` + "\n"))
	f.Add([]byte(`{"type":"error","traceback":null}` + "\n" + `{"type":"end","files":[{}]}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, events := reader(t)
		_, err := b.Write(text)
		if (err != nil) != (b.refused() != nil) {
			t.Errorf("%v, but %v is kept", err, b.refused())
		}
		for _, e := range *events {
			_ = e.Plain()
			_ = e.Media()
		}
	})
}
