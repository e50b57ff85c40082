package code

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// bridge is the client's side of one command that connects to a session.
type bridge struct {
	language Language
	subject  string // the sandbox
	input    *input
	stderr   tail
	// line receives the lines of a command other than run; emit the events of a run.
	line func([]byte) error
	emit func(Event)
	// serve starts the session's process.
	serve func() error
	// restart means that the caller asked for a new session.
	restart bool

	mu      sync.Mutex // held while an event is handled, because two streams may have events
	started EventType  // the last event of the start
	heard   bool       // the session said hello
	end     Event      // the zero Event until the run has ended
	err     error      // why the events were refused
}

func newBridge(language Language) *bridge {
	return &bridge{language: language, input: newInput(language.source("bridge"))}
}

// streams returns the writers for the command's output. line or emit must be set.
func (b *bridge) streams() (stdout, stderr io.Writer) {
	events := &lines{emit: b.handle}
	if b.language.dialect().plain && b.line == nil {
		marked := &marked{events: events, text: text{emit: b.emit, kind: EventStderr}}
		return b.checked(&text{emit: b.emit, kind: EventStdout}), b.checked(marked)
	}
	return b.checked(events), &b.stderr
}

// checked returns a writer whose first error ends the input and stays.
func (b *bridge) checked(w io.Writer) io.Writer { return checkedWriter{b, w} }

type checkedWriter struct {
	b *bridge
	w io.Writer
}

func (c checkedWriter) Write(p []byte) (int, error) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.b.err != nil {
		return 0, c.b.err
	}
	n, err := c.w.Write(p)
	if err != nil {
		c.b.err = err
		c.b.input.close()
	}
	return n, err
}

// refused returns why the events were refused, or nil.
func (b *bridge) refused() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// handle handles one line.
func (b *bridge) handle(line []byte) error {
	if b.line != nil {
		return b.line(line)
	}
	var event struct {
		Event
		Protocol int    `json:"protocol"`
		Known    bool   `json:"known"`
		Ended    string `json:"ended"`
		Message  string `json:"message"`
	}
	if err := decode(line, &event); err != nil {
		return err
	}
	if err := b.inOrder(event.Type); err != nil {
		return err
	}
	switch string(event.Type) {
	case eventHello:
		if event.Protocol != protocol {
			return core.Errorf(
				core.KindConflict, "code", b.subject, "the session has protocol %d, and this program has protocol %d",
				event.Protocol, protocol,
			).WithHint("restart the session, which loses its variables, or use the version of sb that started it")
		}
		b.heard = true
	case eventAbsent:
		if event.Known && !b.restart {
			return b.lost(event.Ended)
		}
		b.input.write(b.language.request("start", "source", b.language.source("session")))
	case eventReady:
		return b.serve()
	case eventFailed:
		return core.Errorf(core.KindUnavailable, "code", b.subject, "the %s session did not start: %s", b.language,
			cleaned(event.Message))
	}
	if event.Type == EventEnd {
		b.end = event.Event
		b.input.close()
		return nil // result emits it: another stream may have output that came before
	}
	if event.Type.ofRun() {
		b.emit(event.Event)
	}
	return nil
}

// inOrder refuses events of the start that come twice. Each of them makes the client work: it sends a program, or
// starts a command.
func (b *bridge) inOrder(next EventType) error {
	after := map[EventType]EventType{eventAbsent: "", eventReady: eventAbsent}
	before, isStart := after[next]
	if !isStart {
		return nil
	}
	if b.started != before {
		return core.Errorf(core.KindInternal, "code", b.subject, "the sandbox sent %q after %q", next, b.started)
	}
	b.started = next
	return nil
}

func (b *bridge) lost(why string) error {
	text := "its process is gone, and with it the variables"
	if why != "" {
		text = "it was unused for its idle time, and its variables are gone"
	}
	return core.Errorf(core.KindConflict, "code", b.subject, "%w: %s", errLost, text)
}

// result returns the end of a run whose command has ended.
func (b *bridge) result(exit core.Exit) (Event, error) {
	switch {
	case b.end.Type == EventEnd:
		b.emit(b.end)
		return b.end, nil
	case exit.NotStarted():
		return Event{}, core.Errorf(
			core.KindUnsupported, "code", b.subject, "the sandbox has no %s: %s", b.language.dialect().interpreter, exit.Message,
		).WithHint("launch one from an image that has it, such as %s", b.language.dialect().image)
	case b.heard && exit.Code == 0:
		return Event{}, core.Errorf(core.KindUnavailable, "code", b.subject, "%w", errEnded)
	}
	return Event{}, b.broken(exit)
}

// broken returns the error of a bridge that failed.
func (b *bridge) broken(exit core.Exit) error {
	last := bytes.TrimSpace(b.stderr.kept)
	if at := bytes.LastIndexByte(last, '\n'); at >= 0 {
		last = last[at+1:]
	}
	e := core.Errorf(core.KindUnavailable, "code", b.subject, "%s failed with exit code %d: %s",
		b.language.dialect().interpreter, exit.Code, cleaned(string(last)))
	return e.WithHint("the sandbox needs a working %s", b.language.dialect().interpreter)
}

// NewReplay returns writers that pass on the events in the output of a command, as a journal has it. ok reports whether
// the command is a run of code. The writers never fail: they drop events that cannot be read, such as the first one of
// a journal that has lost its beginning.
func NewReplay(command []string, emit func(Event)) (stdout, stderr io.Writer, ok bool) {
	at := slices.IndexFunc(Languages(), func(l Language) bool { return l.runs(command) })
	if at < 0 {
		return nil, nil, false
	}
	events := &lines{emit: func(line []byte) error {
		var event Event
		if err := decode(line, &event); err == nil && event.Type.ofRun() {
			emit(event)
		}
		return nil
	}}
	if !Languages()[at].dialect().plain {
		return lenient{events}, io.Discard, true
	}
	errs := &marked{events: events, text: text{emit: emit, kind: EventStderr}}
	return &text{emit: emit, kind: EventStdout}, lenient{errs}, true
}

// lenient is a writer without errors.
type lenient struct{ w io.Writer }

func (l lenient) Write(p []byte) (int, error) {
	_, _ = l.w.Write(p)
	return len(p), nil
}

// cleaned returns foreign text without control characters.
func cleaned(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd")))
}
