package code

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// bridge is the client's side of one command that connects to a session. Until the command has ended, the fields above
// mu belong to the goroutine that writes its output.
type bridge struct {
	language Language
	subject  string // the sandbox
	input    *input
	stderr   tail
	lines    lines
	// line receives the lines of a command other than run; emit the events of a run.
	line func([]byte) error
	emit func(Event)

	// serve starts the session's process.
	serve func() error

	restart bool
	size    int   // of the source
	heard   bool  // the session said hello
	end     Event // the zero Event until the run has ended

	mu  sync.Mutex
	err error // why the events were refused
}

// refused returns why the events were refused, or nil.
func (b *bridge) refused() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func newBridge(language Language) *bridge {
	source := language.source("bridge")
	b := &bridge{language: language, input: newInput(source), size: len(source)}
	b.lines.emit = b.handle
	return b
}

func (b *bridge) command(args ...string) []string { return b.language.command(b.size, args...) }

func (b *bridge) send(fields map[string]string) { b.input.write(request(fields)) }

// Write implements io.Writer for the command's stdout.
func (b *bridge) Write(p []byte) (int, error) {
	if err := b.refused(); err != nil {
		return 0, err
	}
	n, err := b.lines.Write(p)
	if err != nil {
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
		b.input.close()
	}
	return n, err
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
		b.send(map[string]string{"op": "start", "source": b.language.source("session")})
	case eventReady:
		return b.serve()
	case eventFailed:
		return core.Errorf(core.KindUnavailable, "code", b.subject, "the %s session did not start: %s", b.language,
			cleaned(event.Message))
	}
	if event.Type == EventEnd {
		b.end = event.Event
		b.input.close()
	}
	if event.Type.ofRun() {
		b.emit(event.Event)
	}
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
		return b.end, nil
	case exit.NotStarted():
		return Event{}, core.Errorf(
			core.KindUnsupported, "code", b.subject, "the sandbox has no %s: %s", b.language.Interpreter(), exit.Message,
		).WithHint("launch one from an image that has it, such as %s", b.language.Image())
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
		b.language.Interpreter(), exit.Code, cleaned(string(last)))
	return e.WithHint("the sandbox needs a working %s", b.language.Interpreter())
}

// IsRun reports whether a command, as a journal has it, is a run of code in a session. NewReplay reads its stdout.
func IsRun(command []string) bool {
	return len(command) > 4 && (command[0] == "python3" && command[1] == "-ISc" && command[3] == "run" ||
		command[0] == "node" && command[1] == "-e" && command[4] == "run")
}

// NewReplay returns a writer that passes on the events in the stdout of a run. It never fails: it drops what follows an
// event that cannot be read.
func NewReplay(emit func(Event)) io.Writer {
	b := &bridge{input: newInput(""), emit: emit, restart: true}
	b.lines.emit = func(line []byte) error {
		var event Event
		if err := decode(line, &event); err != nil {
			return err
		}
		if event.Type.ofRun() {
			emit(event)
		}
		return nil
	}
	return replay{b}
}

type replay struct{ *bridge }

func (r replay) Write(p []byte) (int, error) {
	_, _ = r.bridge.Write(p)
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
