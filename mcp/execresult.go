package mcp

import (
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
)

// execResult is what tools say of a command.
type execResult struct {
	Sandbox string `json:"sandbox" jsonschema:"id of the sandbox it ran in"`
	Exec    string `json:"exec_id" jsonschema:"id of the command, for exec_wait and exec_kill"`
	Running bool   `json:"running" jsonschema:"it has not ended yet"`
	// ExitCode is as a shell reports it.
	ExitCode    *int    `json:"exit_code,omitempty" jsonschema:"0 is success; 124 time limit, 126 cannot be executed, 127 not found, 128+n ended by signal n"`
	Stdout      string  `json:"stdout" jsonschema:"standard output; beginning and end when it is long"`
	Stderr      string  `json:"stderr" jsonschema:"standard error; beginning and end when it is long"`
	StdoutBytes int64   `json:"stdout_bytes"`
	StderrBytes int64   `json:"stderr_bytes"`
	Truncated   bool    `json:"truncated" jsonschema:"some of the output is left out; the linked resources have the whole"`
	JournalCut  bool    `json:"journal_truncated,omitempty" jsonschema:"the oldest output is no longer kept"`
	TimedOut    bool    `json:"timed_out,omitempty"`
	Message     string  `json:"message,omitempty" jsonschema:"why it ended, where that needs saying"`
	Seconds     float64 `json:"seconds,omitempty"`
	Cursor      string  `json:"cursor,omitempty" jsonschema:"where exec_wait goes on"`
	Note        string  `json:"note,omitempty" jsonschema:"what to do next"`

	links []mcp.ResourceLink
}

// codeTimeout is the exit code of a command that its time limit ended.
const codeTimeout = 124

// with adds how the command ended.
func (r execResult) with(exit core.Exit) execResult {
	code := exit.Code
	if exit.TimedOut {
		code = codeTimeout
	}
	r.ExitCode, r.TimedOut, r.Message = &code, exit.TimedOut, exit.Message
	if r.Message == "" && exit.Reason != "" {
		r.Message = "ended by the sandbox's limit: " + string(exit.Reason)
	}
	r.Seconds = exit.Duration.Round(time.Millisecond).Seconds()
	return r
}

func (r execResult) text() string {
	var b strings.Builder
	switch {
	case r.Running:
		fmt.Fprintf(&b, "running (exec_id %s, sandbox %s)\n", r.Exec, r.Sandbox)
	case r.ExitCode != nil:
		fmt.Fprintf(&b, "exit code %d (exec_id %s, sandbox %s, %gs)\n", *r.ExitCode, r.Exec, r.Sandbox, r.Seconds)
	default:
		fmt.Fprintf(&b, "ended, nobody saw how (exec_id %s, sandbox %s)\n", r.Exec, r.Sandbox)
	}
	if r.Message != "" {
		b.WriteString(r.Message + "\n")
	}
	if r.JournalCut {
		b.WriteString("the oldest output is no longer kept\n")
	}
	for _, stream := range []struct{ name, text string }{{"stdout", r.Stdout}, {"stderr", r.Stderr}} {
		if stream.text != "" {
			fmt.Fprintf(&b, "%s:\n%s", stream.name, stream.text)
			if !strings.HasSuffix(stream.text, "\n") {
				b.WriteByte('\n')
			}
		}
	}
	if r.Stdout == "" && r.Stderr == "" && !r.Running {
		b.WriteString("(no output)\n")
	}
	b.WriteString(r.Note)
	return strings.TrimSuffix(b.String(), "\n")
}

func (r execResult) content() []mcp.Content {
	content := make([]mcp.Content, 0, len(r.links))
	for _, link := range r.links {
		content = append(content, link)
	}
	return content
}
