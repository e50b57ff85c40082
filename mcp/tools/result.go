package tools

import (
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/redact"
	"github.com/seed-0724f904/sb/mcp/reply"
)

// ExecResult is the result of a command, or its state so far.
type ExecResult struct {
	Sandbox string `json:"sandbox"`
	Exec    string `json:"exec_id"`
	Running bool   `json:"running"`
	// ExitCode follows the shell's convention.
	ExitCode    *int    `json:"exit_code,omitempty" jsonschema:"as a shell reports it; 124 is the time limit"`
	Stdout      string  `json:"stdout"`
	Stderr      string  `json:"stderr"`
	StdoutBytes int64   `json:"stdout_bytes"`
	StderrBytes int64   `json:"stderr_bytes"`
	Truncated   bool    `json:"truncated"`
	JournalCut  bool    `json:"journal_truncated,omitempty"`
	TimedOut    bool    `json:"timed_out,omitempty"`
	Message     string  `json:"message,omitempty"`
	Seconds     float64 `json:"seconds,omitempty"`
	Cursor      string  `json:"cursor,omitempty" jsonschema:"for exec_wait, to get only newer output"`
	Note        string  `json:"note,omitempty"`

	links  []mcp.ResourceLink
	images []mcp.ImageContent
}

// codeTimeout is the exit code of a command that exceeded its time limit.
const codeTimeout = 124

// with adds the end of the command; clean removes the values of secrets.
func (r ExecResult) with(exit core.Exit, clean *redact.Redactor) ExecResult {
	code := exit.Code
	if exit.TimedOut {
		code = codeTimeout
	}
	r.ExitCode, r.TimedOut, r.Message = &code, exit.TimedOut, clean.Clean(exit.Message)
	if r.Message == "" && exit.Reason != "" {
		r.Message = "ended by the sandbox's limit: " + string(exit.Reason)
	}
	r.Seconds = float64(exit.Duration.Milliseconds()) / 1000 // whole milliseconds, not float noise
	return r
}

// listBudget bounds the text of a list, in bytes.
const listBudget = reply.DefaultBudget

// list joins the lines of a list, as many as fit into listBudget. A last line counts the others.
func list(lines []string) string {
	left := listBudget
	for i, line := range lines {
		if left -= len(line) + 1; left < 0 && i > 0 {
			return strings.Join(lines[:i], "\n") + fmt.Sprintf("\n[... %d more ...]", len(lines)-i)
		}
	}
	return strings.Join(lines, "\n")
}

// Text implements texter.
func (r ExecResult) Text() string {
	var b strings.Builder
	switch {
	case r.Running:
		fmt.Fprintf(&b, "running (exec_id %s, sandbox %s)\n", r.Exec, r.Sandbox)
	case r.TimedOut:
		fmt.Fprintf(
			&b, "timed out after %gs: exit code %d (exec_id %s, sandbox %s)\n", r.Seconds, codeTimeout, r.Exec, r.Sandbox,
		)
	case r.ExitCode != nil:
		fmt.Fprintf(&b, "exit code %d (exec_id %s, sandbox %s, %gs)\n", *r.ExitCode, r.Exec, r.Sandbox, r.Seconds)
	default:
		fmt.Fprintf(&b, "ended, exit code unknown (exec_id %s, sandbox %s)\n", r.Exec, r.Sandbox)
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

// Attachments implements contenter.
func (r ExecResult) Attachments() []mcp.Content {
	content := make([]mcp.Content, 0, len(r.images)+len(r.links))
	for _, image := range r.images {
		content = append(content, image)
	}
	for _, link := range r.links {
		content = append(content, link)
	}
	return content
}
