package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
	"github.com/seed-0724f904/sb/core/redact"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// run is the body of POST /api/v1/execute.
type run struct {
	Code     string  `json:"code"`
	Session  string  `json:"session_id,omitempty" jsonschema:"name of the session, which keeps variables"`
	Sandbox  string  `json:"sandbox,omitempty" jsonschema:"id or name; left out: the one that all such runs share"`
	Language string  `json:"language,omitempty" jsonschema:"python, javascript or bash" default:"python"`
	Timeout  float64 `json:"timeout,omitempty" jsonschema:"in seconds"`
	Restart  bool    `json:"restart,omitempty" jsonschema:"start the session over"`
}

// message is one message of the response. Text, Image and Error are those of python-sandbox-mcp.
type message struct {
	Text   string `json:"text,omitempty"`
	Stream string `json:"stream,omitempty"` // "stderr" for text that is not stdout's
	// Image is in base64.
	Image  string `json:"image,omitempty" jsonschema:"in base64"`
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
func (a *API) execute(_ operation, w http.ResponseWriter, r *http.Request, c *tools.Call) error {
	var in run
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil { // as python-sandbox-mcp does, it ignores other fields
		return core.Errorf(core.KindUsage, "execute", "", "the body is not the JSON of a run: %w", err)
	}
	if in.Timeout < 0 || in.Timeout > math.MaxInt32 {
		return core.Invalid("timeout", "%v is not a number of seconds", in.Timeout)
	}
	language, err := code.ParseLanguage(cmp.Or(in.Language, string(code.Python)))
	if err != nil {
		return err
	}
	ctx := r.Context()
	sb, err := c.CodeSandbox(ctx, in.Sandbox, language)
	if err != nil {
		return err
	}
	redactor := a.host.Secrets.Of(sb.ID)
	s := &codeStream{stream: newStream(w, r), clean: redactor}
	s.stdout.clean, s.stderr.clean = redactor.Stream(), redactor.Stream()
	call, err := code.Sessions{Execs: c.Service.Execs}.Start(ctx, sb.Ref(), code.Run{
		Language: language, Session: in.Session, Code: in.Code, New: in.Restart,
		Timeout: time.Duration(in.Timeout * float64(time.Second)),
	}, s.event)
	if err != nil {
		return err
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
		return nil
	}
	if err != nil && !s.started() {
		return err
	}
	if err != nil {
		p := problemOf(err)
		text := p.Detail
		if p.Hint != "" {
			text += " (" + p.Hint + ")"
		}
		s.send(message{Error: text, Status: "error"})
	}
	return nil
}

// codeStream sends the messages of one run.
type codeStream struct {
	*stream

	clean   *redact.Redactor
	mu      sync.Mutex // of the fields below
	stdout  redacted
	stderr  redacted
	timeout bool
}

// redacted removes secrets from one stream of text, also those that two events share.
type redacted struct{ clean *redact.Stream }

func (t redacted) next(text string) string { return string(t.clean.Next([]byte(text))) }

// event sends the messages of an event.
func (s *codeStream) event(e code.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

func (s *codeStream) text(text, name string) {
	if text != "" {
		s.send(message{Text: text, Stream: name})
	}
}

// result sends a value: its text, or its picture, and its other representations.
func (s *codeStream) result(e code.Event) {
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
func (s *codeStream) cleaned(value json.RawMessage) json.RawMessage {
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

func (s *codeStream) cleanValue(value any) any {
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
