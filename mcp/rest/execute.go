package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
	"github.com/seed-0724f904/sb/core/redact"
)

// run is the body of POST /api/v1/execute.
type run struct {
	Code string `json:"code"`
	// Session names the session, which keeps variables; "" is code.DefaultSession.
	Session string `json:"session_id"`
	// Sandbox is "" for the one that all such runs share.
	Sandbox  string `json:"sandbox"`
	Language string `json:"language"`
	// Timeout is in seconds.
	Timeout float64 `json:"timeout"`
	// Restart starts the session over.
	Restart bool `json:"restart"`
}

// message is one message of the response. Text, Image and Error are those of python-sandbox-mcp.
type message struct {
	Text   string `json:"text,omitempty"`
	Stream string `json:"stream,omitempty"` // "stderr" for text that is not stdout's
	// Image is in base64.
	Image  string `json:"image,omitempty"`
	Format string `json:"format,omitempty"`
	// Data has the other representations of a value, by MIME type.
	Data      map[string]json.RawMessage `json:"data,omitempty"`
	Error     string                     `json:"error,omitempty"`
	Traceback []string                   `json:"traceback,omitempty"`
	// Status is "ok" or "error" in the last message.
	Status string      `json:"status,omitempty"`
	Count  int64       `json:"execution_count,omitempty"`
	Files  []code.File `json:"files,omitempty"`
}

// interruptTime bounds the wait for code whose client has disconnected.
const interruptTime = 5 * time.Second

// execute runs code and streams its messages, as lines of JSON or as server-sent events. If the client disconnects, the
// code is interrupted.
func (a *api) execute(w http.ResponseWriter, r *http.Request) {
	var in run
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		writeProblem(w, core.Errorf(core.KindUsage, "execute", "", "the body is not the JSON of a run: %w", err))
		return
	}
	if in.Timeout < 0 || in.Timeout > math.MaxInt32 {
		writeProblem(w, core.Invalid("timeout", "%v is not a number of seconds", in.Timeout))
		return
	}
	language, err := code.ParseLanguage(cmp.Or(in.Language, string(code.Python)))
	if err != nil {
		writeProblem(w, err)
		return
	}
	ctx, c := r.Context(), a.call(r)
	sb, err := c.CodeSandbox(ctx, in.Sandbox, language)
	if err != nil {
		writeProblem(w, err)
		return
	}
	redactor := a.host.Secrets.Of(sb.ID)
	s := &stream{w: w, events: strings.Contains(r.Header.Get("Accept"), "text/event-stream"), clean: redactor}
	s.stdout.clean, s.stderr.clean = redactor.Stream(), redactor.Stream()
	call, err := code.Sessions{Execs: c.Service.Execs}.Start(ctx, sb.Ref(), code.Run{
		Language: language, Session: in.Session, Code: in.Code, New: in.Restart,
		Timeout: time.Duration(in.Timeout * float64(time.Second)),
	}, s.event)
	if err != nil {
		writeProblem(w, err)
		return
	}
	defer func() { _ = call.Close() }()
	defer s.end()
	_, err = call.Wait(ctx)
	if ctx.Err() != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTime)
		defer cancel()
		if err := call.Interrupt(ctx); err == nil {
			_, _ = call.Wait(ctx)
		}
		return
	}
	if err != nil {
		s.fail(err)
	}
}

// stream writes the messages of one run.
type stream struct {
	w http.ResponseWriter

	mu      sync.Mutex
	over    bool // the request has ended, and w with it
	events  bool // server-sent events
	begun   bool
	clean   *redact.Redactor
	stdout  redacted
	stderr  redacted
	timeout bool
}

// redacted removes secrets from one stream of text, also those that two events share.
type redacted struct{ clean *redact.Stream }

func (t redacted) next(text string) string { return string(t.clean.Next([]byte(text))) }

// end ends the use of the response. Events that come later are dropped.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// event sends the messages of an event.
func (s *stream) event(e code.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	switch e.Type {
	case code.EventStdout:
		s.text(s.stdout.next(e.Text), "")
	case code.EventStderr:
		s.text(s.stderr.next(e.Text), "stderr")
	case code.EventResult:
		s.result(e)
	case code.EventTimeout:
		s.timeout = true
		s.send(message{Error: "TimeoutError: the time limit of the run is over"})
	case code.EventError:
		if s.timeout { // the interrupt that ended the code
			return
		}
		trace := make([]string, len(e.Traceback))
		for i, line := range e.Traceback {
			trace[i] = s.clean.Clean(line)
		}
		s.send(message{Error: s.clean.Clean(e.Name + ": " + e.Value), Traceback: trace})
	case code.EventEnd:
		s.text(string(s.stdout.clean.Rest()), "")
		s.text(string(s.stderr.clean.Rest()), "stderr")
		status := "ok"
		if !e.OK {
			status = "error"
		}
		for i := range e.Files {
			e.Files[i].Name = s.clean.Clean(e.Files[i].Name)
		}
		s.send(message{Status: status, Count: e.Count, Files: e.Files})
	case code.EventQueued, code.EventBegin:
	}
}

func (s *stream) text(text, name string) {
	if text != "" {
		s.send(message{Text: text, Stream: name})
	}
}

// result sends a value: its text, or its picture, and its other representations.
func (s *stream) result(e code.Event) {
	m := message{Data: map[string]json.RawMessage{}, Count: e.Count}
	for mime, value := range e.Data {
		format, isImage := strings.CutPrefix(mime, "image/")
		switch {
		case mime == "text/plain":
			m.Text = s.clean.Clean(e.Plain())
		case isImage && format != "svg+xml" && m.Image == "":
			if json.Unmarshal(value, &m.Image) == nil {
				m.Format = format
			}
		default:
			m.Data[mime] = s.cleaned(value)
		}
	}
	if m.Image != "" {
		m.Text = "" // a picture's text only names its type
	}
	s.send(m)
}

// cleaned removes secrets from the texts of a JSON value.
func (s *stream) cleaned(value json.RawMessage) json.RawMessage {
	var decoded any
	if err := json.Unmarshal(value, &decoded); err != nil {
		return json.RawMessage("null")
	}
	text, err := json.Marshal(s.cleanValue(decoded))
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}

func (s *stream) cleanValue(value any) any {
	switch value := value.(type) {
	case string:
		return s.clean.Clean(value)
	case []any:
		for i, element := range value {
			value[i] = s.cleanValue(element)
		}
	case map[string]any:
		clean := make(map[string]any, len(value))
		for key, element := range value {
			clean[s.clean.Clean(key)] = s.cleanValue(element)
		}
		return clean
	}
	return value
}

// fail sends the error of a run: a problem if nothing was sent yet, else a message.
func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		writeProblem(s.w, err)
		return
	}
	text := err.Error()
	if hint := hintOf(err); hint != "" {
		text += " (" + hint + ")"
	}
	s.send(message{Error: text, Status: "error"})
}

func (s *stream) send(m message) {
	if !s.begun {
		s.begun = true
		contentType := "application/x-ndjson"
		if s.events {
			contentType = "text/event-stream"
		}
		s.w.Header().Set("Content-Type", contentType)
	}
	line, err := json.Marshal(m)
	if err != nil {
		line = []byte(`{"error":"a value cannot be shown"}`)
	}
	format := "%s\n"
	if s.events {
		format = "data: %s\n\n"
	}
	_, _ = fmt.Fprintf(s.w, format, line) // the request's context ends when the client is gone
	_ = http.NewResponseController(s.w).Flush()
}
