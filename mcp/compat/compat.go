package compat

import (
	"fmt"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// Tools returns the tools of another system: its names and parameters, on top of sb's operations.
func Tools(opts setup.Options) ([]tools.Tool, error) {
	var served []tools.Tool
	switch opts.Compat {
	case setup.MCP4Modal:
		served = mcp4modalTools()
	case setup.DockerSandboxServer:
		served = dockerSandboxTools()
	case setup.MCPSandbox:
		served = mcpSandboxTools()
	case setup.CodeSandboxMCP:
		served = codeSandboxTools()
	default:
		return nil, core.Errorf(core.KindUsage, "mcp", "", "unknown system %q", opts.Compat).
			WithHint("the systems are %s", strings.Join(setup.Compats(), ", "))
	}
	if len(opts.Toolsets)+len(opts.Tools) > 0 || opts.ReadOnly {
		return nil, core.Errorf(core.KindUsage, "mcp", "", "--tools and --toolsets do not work with --compat")
	}
	for i := range served {
		served[i].Structured = true // as those systems answer
	}
	// Their commands end with the call. Here a command outlasts it, and this tool returns the rest.
	return append(served, tools.Named("exec_wait")), nil
}

// Words returns the words of texts about the tools of a system.
func Words(system string) tools.Words {
	words := map[string]map[string]string{
		setup.MCP4Modal: {
			"sandbox_launch": "launch_sandbox", "sandbox_list": "list_sandboxes", "sandbox_terminate": "terminate_sandbox",
			"exec": "execute_command", "push": "push_file_to_sandbox", "pull": "pull_file_from_sandbox",
			"file_read": "read_file_content_from_sandbox", "file_write": "write_file_content_to_sandbox",
			"file_list": "list_directory", "file_mkdir": "make_directory", "file_remove": "remove_path",
		},
		setup.DockerSandboxServer: {
			"sandbox_launch": "create_container_environment", "sandbox_terminate": "exit_container",
			"exec": "execute_command_in_container", "file_write": "create_file_in_container",
			"snapshot": "save_container_state", "dockerfile": "export_dockerfile",
		},
		setup.MCPSandbox: {
			"sandbox_launch": "create_sandbox", "sandbox_list": "list_sandboxes", "run_code": "execute_python_code",
			"packages_install": "install_package_in_sandbox", "packages_status": "check_package_installation_status",
			"exec": "execute_terminal_command", "push": "upload_file_to_sandbox",
		},
		setup.CodeSandboxMCP: {},
	}[system]
	words["exec_wait"] = "exec_wait"
	return tools.NewWords(words)
}

// commandOut is the result of a command in these systems: stdout, stderr and the exit code in separate fields.
type commandOut struct {
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
	ExitCode *int    `json:"exit_code,omitempty"`
	Running  bool    `json:"running,omitempty" jsonschema:"it has not ended; its output so far"`
	Seconds  float64 `json:"execution_time,omitempty"`
	Note     string  `json:"note,omitempty"`
	ExecID   string  `json:"exec_id,omitempty" jsonschema:"of a running command, for exec_wait"`
}

func commandOf(r tools.ExecResult) commandOut {
	out := commandOut{
		Stdout: r.Stdout, Stderr: r.Stderr, ExitCode: r.ExitCode, Running: r.Running, Seconds: r.Seconds, Note: r.Message,
	}
	if r.Running {
		out.ExecID = r.Exec
		out.Note = fmt.Sprintf(
			"It keeps running. exec_wait with sandbox %q and exec_id %q returns the rest.", r.Sandbox, r.Exec,
		)
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
