package rest

import (
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/redact"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// logsIn is the input of logs.
type logsIn struct {
	Sandbox string `json:"sandbox" jsonschema:"id or name"`
	Exec    string `json:"exec_id,omitempty" jsonschema:"a command; left out: the entry command"`
	Follow  bool   `json:"follow,omitempty" jsonschema:"continue until the command ends"`
	Tail    *int   `json:"tail,omitempty" jsonschema:"only this many last lines, and newer ones"`
	Since   string `json:"since,omitempty" jsonschema:"only output after this time (RFC 3339)"`
}

// logRecord is a piece of output, as it was written.
type logRecord struct {
	Time   time.Time   `json:"time"`
	Stream core.Stream `json:"stream" enum:"stdout|stderr"`
	// Text has U+FFFD in place of bytes that are not UTF-8.
	Text string `json:"text" jsonschema:"not only whole lines; the values of secrets are replaced"`
}

// logsOperation needs no tool, as the resources of the protocol do not.
func logsOperation() operation {
	return operation{
		method: http.MethodGet, path: sandboxPath + "/logs", open: true, handle: (*API).logs,
		produces: []string{jsonLines, eventStream},
		tool: tools.Define(tools.Tool{
			Name: "logs", Title: "Read the output of a command", ReadOnly: true,
			Description: "Stream the output of a command that the sandbox has kept, and follow it. Each message is a line of " +
				"JSON or, with Accept: text/event-stream, an event. A failure on the way is the last message, with problem.",
		}, served[logsIn, logRecord]),
	}
}

// logs streams the output of a command.
func (a *API) logs(op operation, w http.ResponseWriter, r *http.Request, c *tools.Call) error {
	var in logsIn
	if err := op.decode(r, &in); err != nil {
		return err
	}
	opts := core.LogOptions{Exec: in.Exec, Follow: in.Follow, Tail: -1, Times: true}
	if in.Tail != nil {
		if *in.Tail < 0 {
			return core.Invalid("tail", "%d is not a number of lines", *in.Tail)
		}
		opts.Tail = *in.Tail
	}
	if in.Since != "" {
		since, err := time.Parse(time.RFC3339, in.Since)
		if err != nil {
			return core.Invalid("since", "%q is not a time like 2026-01-31T12:00:00Z", in.Since)
		}
		opts.Since = since
	}
	ctx, cancel := a.lasting(r.Context())
	defer cancel()
	sb, err := c.Use(ctx, in.Sandbox)
	if err != nil {
		return err
	}
	if in.Follow && in.Exec != "" { // a stream that has begun has no status for it
		if _, err := c.Service.Execs.Find(ctx, sb.Ref(), in.Exec); err != nil {
			return err
		}
	}
	s := newStream(w, r)
	defer s.end()
	if r.Method == http.MethodHead {
		s.begin()
		return nil
	}
	defer s.keepAlive()()
	if in.Follow {
		s.begin()
	}
	redactor := a.host.Secrets.Of(sb.ID)
	texts := map[core.Stream]*legible{
		core.Stdout: {clean: redactor.Stream()}, core.Stderr: {clean: redactor.Stream()},
	}
	var last time.Time
	for record, err := range c.Service.Execs.Logs(ctx, sb.Ref(), opts) {
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			if !s.started() {
				return err
			}
			s.failed(err)
			return nil
		}
		last = record.Time
		text := texts[record.Stream]
		if text == nil {
			continue
		}
		if next := text.next(record.Data); next != "" {
			s.send(logRecord{Time: record.Time, Stream: record.Stream, Text: next})
		}
	}
	for _, name := range []core.Stream{core.Stdout, core.Stderr} {
		if rest := texts[name].rest(); rest != "" {
			s.send(logRecord{Time: last, Stream: name, Text: rest})
		}
	}
	s.begin()
	return nil
}

// legible makes text of a stream of bytes, without secrets. A character that two pieces share comes with the second.
type legible struct {
	clean *redact.Stream
	cut   []byte // the beginning of a character
}

func (l *legible) next(piece []byte) string {
	data := slices.Concat(l.cut, l.clean.Next(piece))
	whole := len(data)
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		at := len(data) - back
		if !utf8.RuneStart(data[at]) {
			continue
		}
		if !utf8.FullRune(data[at:]) {
			whole = at
		}
		break
	}
	l.cut = data[whole:]
	return strings.ToValidUTF8(string(data[:whole]), "\uFFFD")
}

func (l *legible) rest() string {
	return strings.ToValidUTF8(string(slices.Concat(l.cut, l.clean.Rest())), "\uFFFD")
}
