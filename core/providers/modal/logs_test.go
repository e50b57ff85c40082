//go:build linux

package modal_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
)

// logged returns what Logs yields, as one text.
func logged(t *testing.T, p *modal.Provider, id string, opts core.LogOptions) (string, []core.LogRecord) {
	t.Helper()
	var text strings.Builder
	var records []core.LogRecord
	for record, err := range p.Logs(t.Context(), id, opts) {
		if err != nil {
			t.Fatal(err)
		}
		text.Write(record.Data)
		records = append(records, record)
	}
	return text.String(), records
}

// The entry command's output is known with its times.
func TestLogsOfATime(t *testing.T) {
	p := modal.New(newRig(t, nil).opts)
	defer func() { _ = p.Close() }()
	s := spec()
	s.Command = []string{"sh", "-c", "echo early; until [ -e /tmp/go ]; do sleep 0.05; done; echo late >&2; sleep 600"}
	id := launched(t, p, s).ID
	eventually(t, func() bool {
		text, _ := logged(t, p, id, core.LogOptions{Tail: -1})
		return text == "early\n"
	})
	middle := time.Now()
	shell(t, p, id, "touch /tmp/go")
	eventually(t, func() bool {
		text, _ := logged(t, p, id, core.LogOptions{Tail: -1})
		return text == "early\nlate\n"
	})
	if _, records := logged(t, p, id, core.LogOptions{Tail: -1, Times: true}); len(records) != 2 || records[0].Time.After(middle) || records[1].Time.Before(middle) {
		t.Errorf("with times: %+v, not %s between", records, middle)
	}
	for _, test := range []struct {
		opts core.LogOptions
		want string
	}{
		{core.LogOptions{Tail: -1, Since: middle}, "late\n"},
		{core.LogOptions{Tail: -1, Until: middle}, "early\n"},
		{core.LogOptions{Tail: 1, Since: middle.Add(-time.Hour)}, "late\n"},
		{core.LogOptions{Tail: -1, Since: time.Now().Add(time.Hour)}, ""},
	} {
		text, records := logged(t, p, id, test.opts)
		if text != test.want {
			t.Errorf("%+v: %q, want %q", test.opts, text, test.want)
		}
		for _, r := range records {
			if r.Time.Before(middle.Add(-time.Hour)) || r.Time.After(time.Now()) || (r.Stream == core.Stderr) != (string(r.Data) == "late\n") {
				t.Errorf("%+v: a record is %+v", test.opts, r)
			}
		}
	}
	for _, err := range p.Logs(t.Context(), id, core.LogOptions{Tail: -1, Since: middle, Follow: true}) {
		if core.KindOf(err) != core.KindUnsupported {
			t.Errorf("to follow a time: %v", err)
		}
	}
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatal("it did not come")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// What is written all the time has no silence, and who takes it may be slow: all that was there is told, and no more is waited for.
func TestLogsOfWhatGoesOn(t *testing.T) {
	p := modal.New(newRig(t, nil).opts)
	defer func() { _ = p.Close() }()
	for name, gpu := range map[string]core.GPU{"first": {Type: "T4", Count: 1}, "second": {}} {
		t.Run(name, func(t *testing.T) {
			s := spec()
			s.GPU, s.Command = gpu, []string{"sh", "-c", "seq 200000; touch /tmp/there; while :; do echo on; sleep 0.05; done"}
			id := launched(t, p, s).ID
			eventually(t, func() bool {
				return ran(t, p, id, core.ExecSpec{Command: []string{"test", "-e", "/tmp/there"}}).Code == 0
			})
			size, last := 0, ""
			for record, err := range p.Logs(t.Context(), id, core.LogOptions{Tail: -1}) {
				if err != nil {
					t.Fatal(err)
				}
				if size == 0 {
					time.Sleep(time.Second) // longer than a silence
				}
				size, last = size+len(record.Data), string(record.Data)
			}
			if size < 1_288_895 || !strings.HasSuffix(last, "on\n") {
				t.Errorf("%d bytes, at last %q", size, last)
			}
		})
	}
}
