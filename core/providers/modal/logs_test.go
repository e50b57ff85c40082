//go:build linux

package modal_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providertest"
)

// logged returns the output of Logs as one text.
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

// The entry command's output has times and can be read by time range.
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
	if _, records := logged(t, p, id, core.LogOptions{Tail: -1, Times: true}); len(records) != 2 ||
		records[0].Time.After(middle) || records[1].Time.Before(middle) {
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
			if r.Time.Before(middle.Add(-time.Hour)) || r.Time.After(time.Now()) ||
				(r.Stream == core.Stderr) != (string(r.Data) == "late\n") {
				t.Errorf("%+v: a record is %+v", test.opts, r)
			}
		}
	}
	for _, err := range p.Logs(t.Context(), id, core.LogOptions{Tail: -1, Since: middle, Follow: true}) {
		if !errors.Is(err, core.KindUnsupported) {
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

// A pause of a stream is not its end. No read loses output, whether the command and the sandbox run or have ended.
func TestLogsArePausedInTheMiddle(t *testing.T) {
	programtest.Long(t)
	const size, stop = 40 << 20, 18 << 20
	r := newRig(t, nil)
	for _, stream := range []string{"SandboxStdioReadV2", "SandboxGetLogs", "TaskExecStdioRead"} {
		r.faults.Stall(stream, stop, 2*time.Second)
	}
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	const write = "head -c 41943040 /dev/zero | tr '\\0' x; touch /tmp/there; "
	for name, gpu := range map[string]core.GPU{"first": {Type: "T4", Count: 1}, "second": {}} {
		t.Run(name, func(t *testing.T) {
			s := spec()
			s.GPU, s.Command = gpu, []string{"sh", "-c", write + "until [ -e /tmp/end ]; do sleep 0.1; done"}
			id := launched(t, p, s).ID
			there := func(id string) {
				eventually(t, func() bool {
					return ran(t, p, id, core.ExecSpec{Command: []string{"test", "-e", "/tmp/there"}}).Code == 0
				})
			}
			read := func(what string, opts core.LogOptions) {
				t.Helper()
				if text, _ := logged(t, p, id, opts); len(text) != size {
					t.Errorf("%s: %d bytes of %d", what, len(text), size)
				}
			}
			there(id)
			read("an entry command that runs", core.LogOptions{Tail: -1})
			shell(t, p, id, "rm /tmp/there")
			exec, err := p.Exec(t.Context(), id, core.ExecSpec{Command: []string{"sh", "-c", write +
				"until [ -e /tmp/over ]; do sleep 0.1; done"}, Detach: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = exec.Close() }()
			there(id)
			notice := ""
			read("a command that runs", core.LogOptions{Tail: -1, Exec: exec.ID(), Notice: func(text string) { notice += text }})
			if !strings.Contains(notice, "still runs") {
				t.Errorf("the notice is %q", notice)
			}
			shell(t, p, id, "touch /tmp/over")
			read("a command that is followed", core.LogOptions{Tail: -1, Exec: exec.ID(), Follow: true})
			read("a command that has ended", core.LogOptions{Tail: -1, Exec: exec.ID()})
			finish(t, p, id, "/tmp/end")
			read("an entry command that is followed", core.LogOptions{Tail: -1, Follow: true})
			if _, err := p.WaitSandbox(providertest.Patient(t), id); err != nil {
				t.Fatal(err)
			}
			read("an entry command that has ended", core.LogOptions{Tail: -1})
		})
	}
}

// A command that keeps writing has no silence, and the reader may be slow. Logs returns all output so far and does not
// wait for more.
func TestLogsOfRunningCommand(t *testing.T) {
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
					time.Sleep(time.Second) // longer than the silence that ends a read
				}
				size, last = size+len(record.Data), string(record.Data)
			}
			if size < 1_288_895 || !strings.HasSuffix(last, "\n") {
				t.Errorf("%d bytes, at last %q", size, last)
			}
		})
	}
}

// The read of a running command's output ends when an answer arrives after it, even over a slow or stalled link. It
// also ends if the command keeps writing.
func TestLogsOverABadLink(t *testing.T) {
	programtest.Long(t)
	const size = 400 << 10
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	id := launched(t, p, spec()).ID
	start := func(script string) string {
		exec, err := p.Exec(t.Context(), id, core.ExecSpec{Command: []string{"sh", "-c", script}, Detach: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := exec.Close(); err != nil {
			t.Fatal(err)
		}
		return exec.ID()
	}
	const write = "head -c 409600 /dev/zero | tr '\\0' x; "
	quiet := start(write + "touch /tmp/quiet; exec sleep 600")
	busy := start(write + "touch /tmp/busy; while :; do echo on; sleep 0.05; done")
	silent := start("exec sleep 600")
	eventually(t, func() bool {
		return ran(t, p, id, core.ExecSpec{Command: []string{"test", "-e", "/tmp/quiet", "-a", "-e", "/tmp/busy"}}).Code == 0
	})
	for _, link := range []struct {
		name  string
		after int64
		stall time.Duration
		rate  int64
	}{
		{"good", 0, 0, 0},
		{"stalls in the middle", size / 2, 6 * time.Second, 0},
		{"stalls at once", 100, 5 * time.Second, 0},
		{"slow", 0, 0, 40 << 10},
	} {
		t.Run(link.name, func(t *testing.T) {
			r.faults.StallLink(link.after, link.stall)
			r.faults.SlowLink(link.rate)
			defer r.faults.StallLink(0, 0)
			defer r.faults.SlowLink(0)
			p := modal.New(r.opts) // with new connections
			defer func() { _ = p.Close() }()
			var reads sync.WaitGroup
			for exec, wanted := range map[string]int{quiet: size, busy: size, silent: 0} {
				reads.Go(func() {
					got, notice := 0, ""
					for record, err := range p.Logs(t.Context(), id, core.LogOptions{
						Tail: -1, Exec: exec, Notice: func(text string) { notice += text },
					}) {
						if err != nil {
							t.Error(err)
						}
						got += strings.Count(string(record.Data), "x")
					}
					if got != wanted || !strings.Contains(notice, "still runs") {
						t.Errorf("%d bytes of %d, and the notice %q", got, wanted, notice)
					}
				})
			}
			reads.Wait()
		})
	}
}
