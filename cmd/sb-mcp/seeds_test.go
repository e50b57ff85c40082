//go:build linux

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// These are the flows from the documentation of each system, with its own tool names, on real sandboxes.

// mcp4modal: a test environment. It launches, pushes code, runs tests, writes and reads files, and pulls results.
func TestFlowOfMCP4Modal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	dir := filepath.Join(h.dir, "work")
	if err := os.MkdirAll(filepath.Join(dir, "src", "tests"), 0o755); err != nil {
		t.Fatal(err)
	}
	program := "import unittest\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(6*7, 42)\n"
	if err := os.WriteFile(filepath.Join(dir, "src", "tests", "test_answer.py"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	a, _ := h.stdio("--compat", "mcp4modal", "--allow-path", dir)
	sb := a.call(
		"launch_sandbox",
		args{"app_name": "testing", "cpu": 1, "memory": 512, "secrets": map[string]string{"WANDB_API_KEY": "your_key_here"}},
	)["sandbox_id"]
	a.call("push_file_to_sandbox", args{"sandbox_id": sb, "local_path": filepath.Join(dir, "src") +
		"/", "sandbox_path": "/code"})
	got := a.call(
		"execute_command",
		args{
			"sandbox_id": sb, "command": []string{"python3", "-m", "unittest", "discover", "-v", "/code/tests"},
			"timeout_seconds": 60,
		},
	)
	if got["returncode"] != 0.0 || !strings.Contains(got["stderr"].(string), "OK") {
		t.Errorf("the tests: %v", got)
	}
	got = a.call(
		"execute_command", args{"sandbox_id": sb, "command": []string{"sh", "-c", "echo key $WANDB_API_KEY; nproc"}},
	)
	if got["stdout"] != "key [redacted]\n1\n" {
		t.Errorf("the environment: %v", got)
	}
	a.call("make_directory", args{"sandbox_id": sb, "path": "/data/processed", "parents": true})
	a.call(
		"write_file_content_to_sandbox",
		args{"sandbox_id": sb, "sandbox_path": "/data/processed/results.csv", "content": "a,b\n1,2\n"},
	)
	if got := a.call("list_directory", args{"sandbox_id": sb, "path": "/data"}); got["total"] != 1.0 {
		t.Errorf("the directory: %v", got)
	}
	a.call(
		"pull_file_from_sandbox",
		args{
			"sandbox_id": sb, "sandbox_path": "/data/processed/results.csv", "local_path": filepath.Join(dir, "results.csv"),
		},
	)
	if data, err := os.ReadFile(filepath.Join(dir, "results.csv")); err != nil || string(data) != "a,b\n1,2\n" {
		t.Errorf("pulled %q, %v", data, err)
	}
	a.call("remove_path", args{"sandbox_id": sb, "path": "/data", "recursive": true})
	a.call("terminate_sandbox", args{"sandbox_id": sb})
	if got := a.call("list_sandboxes", args{"app_name": "testing"}); len(got["sandboxes"].([]any)) != 0 {
		t.Errorf("left: %v", got)
	}
}

// docker-sandbox-server: a persistent environment, a script in it, and its Dockerfile.
func TestFlowOfDockerSandboxServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	a, server := h.stdio("--compat", "docker-sandbox-server")
	id := a.call("create_container_environment", args{"image": "host", "persistent": true})["container_id"].(string)
	a.call(
		"create_file_in_container",
		args{
			"container_id": id, "filename": "/app/fib.py",
			"content": "a, b = 0, 1\nfor _ in range(10):\n    print(a, end=' ')\n    a, b = b, a + b\n",
		},
	)
	if got := a.call(
		"execute_command_in_container", args{"container_id": id, "command": "cd /app && python3 fib.py"},
	); got["stdout"] != "0 1 1 2 3 5 8 13 21 34 " {
		t.Errorf("fibonacci: %v", got)
	}
	if text, _ := a.call("export_dockerfile", args{"container_id": id})["dockerfile"].(string); !strings.Contains(
		text, "python3 fib.py",
	) || !strings.Contains(
		text, "a, b = b, a + b",
	) {
		t.Errorf("the Dockerfile: %s", text)
	}
	a.call("save_container_state", args{"container_id": id, "name": "ds-workspace:v1"})
	copied := a.call("create_container_environment", args{"image": "ds-workspace:v1"})["container_id"]
	if got := a.call(
		"execute_command_in_container", args{"container_id": copied, "command": "python3 /app/fib.py"},
	); got["stdout"] != "0 1 1 2 3 5 8 13 21 34 " {
		t.Errorf("from the saved state: %v", got)
	}
	a.call("exit_container", args{"container_id": copied})
	_ = a.session.Close()
	_ = server.in.Close()
	_ = server.wait()
	if out := h.sb("exec", id, "cat", "/app/fib.py"); !strings.Contains(out, "range(10)") {
		t.Errorf("it did not stay when its client was gone: %s", out)
	}
	back, _ := h.stdio("--compat", "docker-sandbox-server")
	back.call("exit_container", args{"container_id": id})
}

// mcp-sandbox: code makes files, and links to them come back. It uses SSE with the key in the URL, as its users do.
func TestFlowOfMCPSandbox(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	key := strings.TrimSpace(strings.Split(h.sb("key", "create", "alice"), "\n")[0])
	url, _ := h.listen("--compat", "mcp-sandbox", "--transport", "sse")
	a := connect(t, &sdk.SSEClientTransport{Endpoint: url + "/sse?api_key=" + key})
	sb := a.call("create_sandbox", args{})["sandbox_id"]
	if got := a.call("list_sandboxes", args{}); len(got["sandboxes"].([]any)) != 1 {
		t.Errorf("the list: %v", got)
	}
	got := a.call(
		"execute_python_code", args{"sandbox_id": sb, "code": "open('plot.csv', 'w').write('x,y\\n')\nprint('made')"},
	)
	links, _ := got["file_links"].([]any)
	if got["stdout"] != "made\n" || len(links) != 1 {
		t.Fatalf("executed: %v", got)
	}
	response, err := http.Get(links[0].(string))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "x,y\n" ||
		!strings.HasPrefix(response.Header.Get("Content-Type"), "text/csv") {
		t.Errorf("the link: %q %v, %v", text, response.Header, err)
	}
	if got := a.call(
		"execute_terminal_command", args{"sandbox_id": sb, "command": "cat /app/results/plot.csv"},
	); got["stdout"] != "x,y\n" || got["exit_code"] != 0.0 {
		t.Errorf("the terminal: %v", got)
	}
	if got := a.call(
		"check_package_installation_status", args{"sandbox_id": sb, "package_name": "no-such-package"},
	); got["status"] != "failed" {
		t.Errorf("a package that is not there: %v", got)
	}
}

// code-sandbox-mcp: a snippet runs, its output returns, and no sandbox is left.
func TestFlowOfCodeSandboxMCP(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	a, _ := h.stdio("--compat", "code-sandbox-mcp")
	if got := a.call(
		"run_python_code", args{"code": "import sys; print('out'); print('err', file=sys.stderr); sys.exit(4)"},
	); got["stdout"] != "out\n" || got["stderr"] != "err\n" || got["exit_code"] != 4.0 {
		t.Errorf("python: %v", got)
	}
	got := a.call("run_js_code", args{"code": "console.log(6*7)"})
	if got["stdout"] != "42\n" && got["exit_code"] != 127.0 { // 127 without Node.js on this machine
		t.Errorf("javascript: %v", got)
	}
	if left := strings.TrimSpace(h.sb("ls", "--all", "-q")); left != "" {
		t.Errorf("left: %s", left)
	}
}

// python-sandbox-mcp is a REST service. run_code executes its code, and file_read returns its picture.
func TestFlowOfPythonSandboxMCP(t *testing.T) {
	t.Parallel()
	a, _ := newHome(t).stdio()
	sb := a.launch(nil)
	got := a.call("run_code", args{"sandbox": sb, "language": "python", "code": "print('Hello, World!')\n" +
		"import struct, zlib\n" +
		"def chunk(name, data): return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + " +
		"data))\n" +
		"rows = b''.join(b'\\0' + b'\\xff\\0\\0' * 2000 for _ in range(1000))\n" +
		"open('/tmp/plot.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 2000, 1000, " +
		"8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))"})
	if got["stdout"] != "Hello, World!\n" {
		t.Errorf("executed: %v", got)
	}
	result, err := a.try(t.Context(), "file_read", args{"sandbox": sb, "path": "/tmp/plot.png"})
	if err != nil || result.IsError {
		t.Fatalf("%+v, %v", result, err)
	}
	pictures := 0
	for _, content := range result.Content {
		if picture, ok := content.(*sdk.ImageContent); ok {
			pictures++
			config, err := pngConfig(picture.Data)
			if err != nil || config.Width != 768 || config.Height != 384 || picture.MIMEType != "image/png" {
				t.Errorf("the picture is %dx%d, %s: %v", config.Width, config.Height, picture.MIMEType, err)
			}
		}
	}
	if pictures != 1 {
		t.Errorf("%d pictures", pictures)
	}
	got = a.call("run_code", args{"sandbox": sb, "language": "python", "code": "undefined_var"})
	if !strings.Contains(got["stderr"].(string), "NameError: name 'undefined_var' is not defined") ||
		got["exit_code"] != 1.0 {
		t.Errorf("an error: %v", got)
	}
}
