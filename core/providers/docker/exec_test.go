package docker

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providertest"
)

// pipeLine is a line whose other end does not read.
type pipeLine struct{ net.Conn }

// CloseWrite implements line.
func (pipeLine) CloseWrite() error { return nil }

func (pipeLine) diagnostics() []byte { return nil }

// TestCloseDoesNotWaitForInput closes a process while a piece of its stdin is being sent. The other end never reads it.
func TestCloseDoesNotWaitForInput(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	p := &process{
		call: &call{line: pipeLine{ours}}, done: make(chan struct{}), credit: make(chan struct{}, 1),
		window: wire.StdinWindow,
	}
	close(p.done)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		p.feed(strings.NewReader("never taken"), true)
	}()
	// Its first byte was taken, so the rest is being sent.
	if _, err := theirs.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	providertest.Receive(t, fed)
}

// Arguments may be as long as core allows, even if JSON makes them longer. A journal may have many of them.
func TestLongArguments(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, func(opts *Options) { opts.EngineOnly = e.name == "podman" })
		sb := box(t, p, nil)
		argv := []string{"sh", "-c", "echo ${#7}"}
		for range 8 { // the kernel's limit for one argument
			argv = append(argv, strings.Repeat("<", 120_000))
		}
		const times = 6
		for range times {
			if out, code := run(t, p, sb.ID, core.ExecSpec{Command: argv}); out != "120000\n" || code != 0 {
				t.Fatalf("a long command says %q, %d", out, code)
			}
		}
		execs, err := p.Execs(t.Context(), sb.ID)
		if err != nil || len(execs) != times || !slices.Equal(execs[times-1].Command, argv) {
			t.Errorf("%d commands are listed, %v", len(execs), err)
		}
	})
}

// TestCloseEndsTheCall checks that a caller who leaves does not wait for the end of a container that lives: "sb kill"
// took as long as an engine may need to notice an end.
func TestCloseEndsTheCall(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		for name, change := range map[string]func(*Options){"direct": nil, "engine": throughEngine} {
			t.Run(name, func(t *testing.T) {
				p := e.open(t, change)
				sb := box(t, p, nil)
				running, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"sleep", "1000"}})
				if err != nil {
					t.Fatal(err)
				}
				if err := running.Close(); err != nil {
					t.Error(err)
				}
				left, ok := running.(*process)
				if !ok {
					t.Fatalf("the process is a %T", running)
				}
				wantKind(t, left.err, core.KindCanceled)
			})
		}
	})
}
