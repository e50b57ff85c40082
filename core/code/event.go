package code

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// EventType is the type of an event.
type EventType string

// The types of events of a run, in which order they come. Output, results and errors come as the code makes them.
const (
	EventQueued  EventType = "queued" // another run of the session comes first
	EventBegin   EventType = "begin"
	EventStdout  EventType = "stdout"
	EventStderr  EventType = "stderr"
	EventResult  EventType = "result"  // the value of the last expression, or what the code displays
	EventError   EventType = "error"   // an exception that the code did not handle
	EventTimeout EventType = "timeout" // Run.Timeout is over, and the code was interrupted
	EventEnd     EventType = "end"     // the last one
)

// The other events of a bridge. Callers of Sessions see errors instead.
const (
	eventHello   = "hello"
	eventAbsent  = "absent"
	eventReady   = "ready"
	eventFailed  = "failed"
	eventSession = "session"
	eventDone    = "done"
)

// ofRun reports whether a type is one of those that callers see. A newer session may send others.
func (t EventType) ofRun() bool {
	return slices.Contains([]EventType{
		EventQueued, EventBegin, EventStdout, EventStderr, EventResult, EventError, EventTimeout, EventEnd,
	}, t)
}

// protocol is the version of the events. Sessions of other versions are refused.
const protocol = 1

// Event is one event of a run. The sandbox made it, so every field is foreign text.
type Event struct {
	Type EventType `json:"type"`
	// Text is the output of EventStdout and EventStderr.
	Text string `json:"text,omitempty"`
	// Data has the representations of an EventResult by MIME type: base64 for pictures and PDF, JSON for types that end
	// in json, else text.
	Data map[string]json.RawMessage `json:"data,omitempty"`
	// Omitted has the sizes, in bytes, of representations that were too large.
	Omitted map[string]int64 `json:"omitted,omitempty"`
	// Name, Value and Traceback describe an EventError.
	Name      string   `json:"name,omitempty"`
	Value     string   `json:"value,omitempty"`
	Traceback []string `json:"traceback,omitempty"`
	// OK, of an EventEnd, reports that the code raised no error. Files are the files of the working directory that the
	// code created or changed.
	OK    bool   `json:"ok,omitempty"`
	Files []File `json:"files,omitempty"`
	// Count numbers the runs of a session.
	Count int64 `json:"execution_count,omitempty"`
}

// File is a file that code created or changed.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Plain returns the text of a result, or "".
func (e Event) Plain() string { return e.text("text/plain") }

func (e Event) text(mime string) string {
	var text string
	if err := json.Unmarshal(e.Data[mime], &text); err != nil {
		return ""
	}
	return text
}

// Media returns the representations of a result that are files: pictures and documents, by MIME type. Those that cannot
// be decoded are left out.
func (e Event) Media() map[string][]byte {
	media := map[string][]byte{}
	for mime := range e.Data {
		switch {
		case mime == "image/svg+xml":
			media[mime] = []byte(e.text(mime))
		case strings.HasPrefix(mime, "image/") || mime == "application/pdf":
			if content, err := base64.StdEncoding.DecodeString(e.text(mime)); err == nil {
				media[mime] = content
			}
		}
	}
	return media
}

// maxLine bounds one event, in bytes. The drivers bound the data of a result at 32 MiB.
const maxLine = 40 << 20

// lines is a writer that splits events from the output of a bridge. An event that cannot be read, or that is too long,
// ends it with an error.
type lines struct {
	held []byte
	emit func(line []byte) error
}

func (l *lines) Write(p []byte) (int, error) {
	for rest := p; ; {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if len(l.held)+len(line) > maxLine {
			return 0, core.Errorf(core.KindExhausted, "code", "", "the sandbox sent a result of more than %d MiB", maxLine>>20)
		}
		if !found {
			l.held = append(l.held, line...)
			return len(p), nil
		}
		l.held = append(l.held, line...)
		whole := l.held
		l.held = nil
		if err := l.emit(whole); err != nil {
			return 0, err
		}
		rest = after
	}
}

// decode reads one event into a struct that embeds Event, or is like it.
func decode(line []byte, into any) error {
	if err := json.Unmarshal(line, into); err != nil {
		return core.Errorf(core.KindInternal, "code", "", "the sandbox sent no event: %.80q", line).
			WithHint("a program in the sandbox may have replaced its interpreter; restart the session")
	}
	return nil
}
