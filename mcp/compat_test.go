package mcp

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// theirs has the documented tools of other systems, with their parameters.
func theirs() map[string]map[string][]string {
	return map[string]map[string][]string{
		setup.MCP4Modal: {
			"launch_sandbox": {
				"app_name", "python_version", "pip_packages", "apt_packages", "timeout_seconds", "cpu", "memory", "secrets",
				"inject_predefined_secrets", "volumes", "workdir", "gpu_type", "gpu_count",
			},
			"terminate_sandbox": {"sandbox_id"}, "list_sandboxes": {"app_name"},
			"execute_command":                {"sandbox_id", "command", "timeout_seconds"},
			"push_file_to_sandbox":           {"sandbox_id", "local_path", "sandbox_path", "read_file_mode", "writefile_mode"},
			"pull_file_from_sandbox":         {"sandbox_id", "sandbox_path", "local_path"},
			"read_file_content_from_sandbox": {"sandbox_id", "path"},
			"write_file_content_to_sandbox":  {"sandbox_id", "sandbox_path", "content"},
			"list_directory":                 {"sandbox_id", "path"},
			"make_directory":                 {"sandbox_id", "path", "parents"},
			"remove_path":                    {"sandbox_id", "path", "recursive"},
		},
		setup.DockerSandboxServer: {
			"create_container_environment": {"image", "persistent"},
			"create_file_in_container":     {"container_id", "filename", "content"},
			"execute_command_in_container": {"container_id", "command"}, "save_container_state": {"container_id", "name"},
			"export_dockerfile": {"container_id"}, "exit_container": {"container_id"},
		},
		setup.MCPSandbox: {
			"create_sandbox": {}, "list_sandboxes": {}, "execute_python_code": {"sandbox_id", "code"},
			"install_package_in_sandbox":        {"sandbox_id", "package_name"},
			"check_package_installation_status": {"sandbox_id", "package_name"},
			"execute_terminal_command":          {"sandbox_id", "command"},
			"upload_file_to_sandbox":            {"sandbox_id", "local_file_path", "dest_path"},
		},
		setup.CodeSandboxMCP: {"run_python_code": {"code"}, "run_js_code": {"code"}},
	}
}

// Every tool of theirs is served under its name with its parameters, and docs/mcp.md names its counterpart.
func TestCompatTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "mcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]bool{}
	for _, tool := range tools.Catalogue() {
		ours[tool.Name] = true
	}
	rows := map[string][]string{} // "system tool": our tools
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(strings.TrimSpace(cells[2]), "`") {
			continue
		}
		key := strings.TrimSpace(cells[1]) + " " + strings.Trim(strings.TrimSpace(cells[2]), "`")
		for name := range strings.SplitSeq(cells[3], ",") {
			if name = strings.Trim(strings.TrimSpace(name), "`"); name != "" {
				rows[key] = append(rows[key], name)
				if !ours[name] {
					t.Errorf("docs/mcp.md: %s is said to be %s here, and there is no such tool", key, name)
				}
			}
		}
	}
	for system, wanted := range theirs() {
		served, err := toolsFor(setup.Options{Compat: system})
		if err != nil {
			t.Fatal(err)
		}
		if len(served) != len(wanted)+1 { // and exec_wait
			t.Errorf("%s: %d tools are served, not %d", system, len(served), len(wanted))
		}
		for name, parameters := range wanted {
			at := slices.IndexFunc(served, func(tool tools.Tool) bool { return tool.Name == name })
			if at < 0 {
				t.Errorf("%s: %s is not served", system, name)
				continue
			}
			for _, parameter := range parameters {
				if served[at].In.Root.Properties[parameter] == nil {
					t.Errorf("%s: %s has no parameter %s", system, name, parameter)
				}
			}
			if len(rows[system+" "+name]) == 0 {
				t.Errorf("docs/mcp.md does not say what %s of %s is here", name, system)
			}
		}
	}
	for _, route := range []string{"POST /api/v1/execute", "GET /api/v1/sessions", "GET /api/v1/health"} {
		if !strings.Contains(string(text), "`"+route+"`") {
			t.Errorf("docs/mcp.md does not say what %s of python-sandbox-mcp is here", route)
		}
	}
}

func TestCompatToolSnapshots(t *testing.T) {
	for _, system := range setup.Compats() {
		tools, err := toolsFor(setup.Options{Compat: system})
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			encoded, err := json.MarshalIndent(tool.Definition(), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "compat", system, tool.Name+".json"), append(encoded, '\n'))
		}
	}
	for _, bad := range []setup.Options{{Compat: "other"}, {Compat: setup.MCPSandbox, ReadOnly: true}} {
		if _, err := toolsFor(bad); !errors.Is(err, core.KindUsage) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func compatBench(t *testing.T, opts setup.Options) *assistant {
	t.Helper()
	provider := fake.New(fake.Options{Also: []core.Capability{core.CapCPU, core.CapImages}})
	svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{provider.Factory()}})
	return benchOver(t, provider, svc, opts).connect(t)
}

func TestCompatMCP4Modal(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "data.json"), "{}")
	a := compatBench(t, setup.Options{Compat: setup.MCP4Modal, AllowPaths: []string{dir}})
	info := a.Call(
		"launch_sandbox", args{"app_name": "ml-research", "secrets": map[string]string{"WANDB_API_KEY": "your_key"}},
	)
	sb := info["sandbox_id"]
	if info["app_name"] != "ml-research" || info["status"] != "running" {
		t.Errorf("launched: %v", info)
	}
	a.Call("launch_sandbox", args{"app_name": "other"})
	if got := a.Call("list_sandboxes", args{"app_name": "ml-research"}); len(got["sandboxes"].([]any)) != 1 {
		t.Errorf("the list: %v", got)
	}
	a.Call("make_directory", args{"sandbox_id": sb, "path": "/data/raw", "parents": true})
	a.fails(core.KindNotFound, "make_directory", args{"sandbox_id": sb, "path": "/none/raw"})
	a.Call(
		"push_file_to_sandbox",
		args{"sandbox_id": sb, "local_path": filepath.Join(dir, "data.json"), "sandbox_path": "/data/data.json"},
	)
	got := a.Call(
		"execute_command",
		args{
			"sandbox_id": sb, "command": []string{"sh", "-c", "cat /data/data.json; echo $WANDB_API_KEY; exit 2"},
			"timeout_seconds": 20,
		},
	)
	if got["stdout"] != "{}[redacted]\n" || got["returncode"] != 2.0 || got["exit_code"] != 2.0 {
		t.Errorf("executed: %v", got)
	}
	a.Call("write_file_content_to_sandbox", args{"sandbox_id": sb, "sandbox_path": "/data/out.csv", "content": "a,b\n"})
	if got := a.Call("read_file_content_from_sandbox", args{
		"sandbox_id": sb, "path": "/data/out.csv",
	}); got["content"] != "a,b\n" {
		t.Errorf("read: %v", got)
	}
	if got := a.Call("list_directory", args{"sandbox_id": sb, "path": "/data"}); got["total"] != 3.0 {
		t.Errorf("the directory: %v", got)
	}
	a.Call(
		"pull_file_from_sandbox",
		args{"sandbox_id": sb, "sandbox_path": "/data/out.csv", "local_path": filepath.Join(dir, "out.csv")},
	)
	if data, err := os.ReadFile(filepath.Join(dir, "out.csv")); err != nil || string(data) != "a,b\n" {
		t.Errorf("pulled: %q, %v", data, err)
	}
	a.Call("remove_path", args{"sandbox_id": sb, "path": "/data", "recursive": true})
	a.Call("terminate_sandbox", args{"sandbox_id": sb})
	if text := a.fails(
		core.KindUnsupported, "launch_sandbox", args{"app_name": "x", "gpu_type": "H100", "gpu_count": 2},
	); !strings.Contains(text, "gpu") {
		t.Errorf("a GPU: %s", text)
	}
}

func TestCompatDockerSandboxServer(t *testing.T) {
	a := compatBench(t, setup.Options{Compat: setup.DockerSandboxServer})
	info := a.Call("create_container_environment", args{"image": "python:3.12", "persistent": true})
	id := info["container_id"]
	if usage, _ := info["usage"].(string); !strings.Contains(usage, "sb shell ") {
		t.Errorf("a persistent container comes without instructions: %v", info)
	}
	a.Call("create_file_in_container", args{"container_id": id, "filename": "/app/hello.sh", "content": "echo hello"})
	if got := a.Call(
		"execute_command_in_container", args{"container_id": id, "command": "sh /app/hello.sh"},
	); got["stdout"] != "hello\n" {
		t.Errorf("executed: %v", got)
	}
	a.Call("execute_command_in_container", args{"container_id": id, "command": "false"})
	a.fails(core.KindUnsupported, "save_container_state", args{"container_id": id, "name": "my-env:v1"})
	got := a.Call("export_dockerfile", args{"container_id": id})
	text, _ := got["dockerfile"].(string)
	want := "FROM python:3.12\nRUN [\"/bin/sh\",\"-c\",\"sh /app/hello.sh\"]\n" +
		"# failed with code 1: /bin/sh -c false\n"
	if !strings.HasPrefix(text, "# The files of sandbox ") || !strings.HasSuffix(text, want) {
		t.Errorf("the Dockerfile is %q", text)
	}
	a.Call("exit_container", args{"container_id": id, "force": true})
}

func TestCompatMCPSandbox(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "in.csv"), "1,2\n")
	a := compatBench(t, setup.Options{Compat: setup.MCPSandbox, AllowPaths: []string{dir}})
	sb := a.Call("create_sandbox", args{})["sandbox_id"]
	if got := a.Call("list_sandboxes", args{}); len(got["sandboxes"].([]any)) != 1 {
		t.Errorf("the list: %v", got)
	}
	a.Call("upload_file_to_sandbox", args{"sandbox_id": sb, "local_file_path": filepath.Join(dir, "in.csv")})
	if got := a.Call(
		"execute_terminal_command", args{"sandbox_id": sb, "command": "cat /app/results/in.csv"},
	); got["stdout"] != "1,2\n" || got["exit_code"] != 0.0 {
		t.Errorf("executed: %v", got)
	}
}
