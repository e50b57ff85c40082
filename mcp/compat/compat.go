package compat

import (
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// Tools returns the tools of another system: its names and parameters, on top of sb's operations.
func Tools(opts setup.Options) ([]tools.Tool, error) {
	var tools []tools.Tool
	switch opts.Compat {
	case setup.MCP4Modal:
		tools = mcp4modalTools()
	case setup.DockerSandboxServer:
		tools = dockerSandboxTools()
	case setup.MCPSandbox:
		tools = mcpSandboxTools()
	case setup.CodeSandboxMCP:
		tools = codeSandboxTools()
	default:
		return nil, core.Errorf(core.KindUsage, "mcp", "", "unknown system %q", opts.Compat).
			WithHint("the systems are %s", strings.Join(setup.Compats(), ", "))
	}
	if len(opts.Toolsets)+len(opts.Tools) > 0 || opts.ReadOnly {
		return nil, core.Errorf(core.KindUsage, "mcp", "", "--tools and --toolsets do not work with --compat")
	}
	for i := range tools {
		tools[i].Structured = true // as those systems answer
	}
	return tools, nil
}

// commandOut is the result of a command in these systems: stdout, stderr and the exit code in separate fields.
type commandOut struct {
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
	ExitCode *int    `json:"exit_code,omitempty"`
	Running  bool    `json:"running,omitempty" jsonschema:"it has not ended; its output so far"`
	Seconds  float64 `json:"execution_time,omitempty"`
	Note     string  `json:"note,omitempty"`
}

func commandOf(r tools.ExecResult) commandOut {
	out := commandOut{
		Stdout: r.Stdout, Stderr: r.Stderr, ExitCode: r.ExitCode, Running: r.Running, Seconds: r.Seconds, Note: r.Message,
	}
	if r.Running {
		out.Note = "It keeps running in the background."
	}
	return out
}

func (o commandOut) Text() string {
	return plainText(tools.ExecResult{
		Running: o.Running, ExitCode: o.ExitCode, Stdout: o.Stdout, Stderr: o.Stderr, Seconds: o.Seconds, Message: o.Note,
	})
}

// plainText returns the text of a result without ids, which these systems do not have.
func plainText(r tools.ExecResult) string {
	text := r.Text()
	if _, rest, found := strings.Cut(text, "\n"); found {
		head, _, _ := strings.Cut(text, " (exec_id")
		return head + "\n" + rest
	}
	return text
}
