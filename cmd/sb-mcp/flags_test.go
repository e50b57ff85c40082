//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every launch of a server with a template is of that template. Commands find the template by its name.
func TestTemplateOfTheServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	dir := filepath.Join(h.dir, "config", "sb", "templates")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(
		filepath.Join(dir, "analysis.yaml"),
		[]byte("image: host\nmemory: 300MiB\ntimeout: 1h\nenv: {KIND: analysis}\nnetwork: {mode: none}\n"), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	a, _ := h.stdio("--template", "analysis")
	sb := a.launch(args{"env": map[string]string{"OWN": "mine"}})
	if got := a.call("exec", args{"sandbox": sb, "command": "echo $KIND $OWN"}); got["stdout"] != "analysis mine\n" {
		t.Errorf("in it: %v", got)
	}
	for _, other := range []args{
		{"image": "python:3.12"},
		{"memory": "8GiB"},
		{"network": "all"},
		{"gpu": "T4"},
		{"template": "other"},
		{"timeout_seconds": 7200},
		{"persist": true},
		{"pip": []string{"x"}},
	} {
		result, err := a.try(t.Context(), "sandbox_launch", other)
		if err != nil || !result.IsError || !strings.HasPrefix(textOf(result), "error (unauthorized)") {
			t.Errorf("%v: %+v, %v", other, result, err)
		}
	}
	if out := h.sb("run", "--template", "analysis", "--", "sh", "-c", "echo kind $KIND"); !strings.Contains(
		out, "kind analysis",
	) {
		t.Errorf("sb run --template: %s", out)
	}
	for _, name := range []string{"none", "../templates/analysis"} {
		if out := h.sb("launch", "--template", name); !strings.Contains(out, "there is no template") {
			t.Errorf("sb launch --template %s: %s", name, out)
		}
	}
}

// MCP_HOST and MCP_PORT replace missing flags. A host that others can reach needs keys.
func TestEnvironmentOfPeers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	plain := h.env
	h.env = slices.Concat(plain, []string{"MCP_HOST=0.0.0.0", "MCP_PORT=0"})
	if out := h.sb("mcp", "--transport", "streamable-http"); !strings.Contains(out, "neither an API key nor an issuer") {
		t.Errorf("it listens to all without keys: %s", out)
	}
	h.env = slices.Concat(plain, []string{"MCP_HOST=localhost", "MCP_PORT=1"})
	url, _ := h.listen("--no-auth", "--transport", "sse", "--host", "127.0.0.1")
	if !strings.HasPrefix(url, "http://127.0.0.1:") || strings.HasSuffix(url, ":1") {
		t.Errorf("the flags do not win: %s", url)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 404, "/files/x": 404} {
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	for _, port := range []string{"many", "70000", "-1"} {
		h.env = slices.Concat(plain, []string{"MCP_PORT=" + port})
		if out := h.sb("mcp", "--transport", "sse"); !strings.Contains(out, "is not a port") {
			t.Errorf("port %s: %s", port, out)
		}
	}
}

// Code runs in the image of its language. Variables that other servers use win over the settings.
func TestImagesOfLanguages(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, language := range []string{"python", "bash"} {
		h.sb("config", "set", "images."+language, "registry.invalid/"+language+":1")
	}
	h.env = append(h.env, "CONTAINER_IMAGE=host", "CONTAINER_LANGUAGE=bash")
	a, _ := h.stdio()
	if got := a.call("run_code", args{"language": "bash", "code": "echo from $((6*7))"}); got["stdout"] != "from 42\n" {
		t.Errorf("with the variables' image: %v", got)
	}
	result, err := a.try(t.Context(), "run_code", args{"language": "python", "code": "print(1)"})
	if err != nil || !result.IsError || !strings.Contains(textOf(result), "registry.invalid/python:1") {
		t.Errorf("with the configuration's image: %+v, %v", result, err)
	}
}

// With --log-file the log is in that file only, in JSON on request.
func TestLogFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	file := filepath.Join(h.dir, "log")
	server := h.serve("--log-file", file, "--log-json", "--log-level", "debug")
	r := bufio.NewReader(server.out)
	if _, err := io.WriteString(server.in,
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n"+
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"sandbox":"absent","command":"true"}}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	answer(t, r, 1)
	_ = server.in.Close()
	if err := server.wait(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for entry := range strings.Lines(string(text)) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(entry), &fields); err != nil {
			t.Errorf("%q is not JSON", entry)
		}
		found = found || fields["msg"] == "tool" && fields["name"] == "exec" && fields["result"] == "not_found"
	}
	if !found || server.stderr.String() != "" {
		t.Errorf("the log lacks the call, or stderr has output: %s%s", text, server.stderr)
	}
}

// The tools of a selection are printed with their sizes, and nothing is served.
func TestListOfTools(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for arguments, want := range map[string]string{
		"--toolsets files":     `(?s)file_edit +files +\d+ +yes +Edit a file\n.*\ntotal +. +\d+ `,
		"--read-only --json":   `^\[\n +\{\n +"name": "sandbox_list",`,
		"--tools nosuch":       `there is no tool "nosuch"`,
		"--compat mcp-sandbox": `create_sandbox`,
	} {
		out := h.sb(append([]string{"mcp", "--list-tools"}, strings.Fields(arguments)...)...)
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s: %s", arguments, out)
		}
	}
	if out := h.sb("mcp", "--json"); !strings.Contains(out, "needs --list-tools") {
		t.Errorf("--json alone: %s", out)
	}
}

// The configuration selects tools, and flags replace it.
func TestToolsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	names := func(flags string) string {
		t.Helper()
		var tools []struct{ Name string }
		out := h.sb(append([]string{"mcp", "--list-tools", "--json"}, strings.Fields(flags)...)...)
		if err := json.Unmarshal([]byte(out), &tools); err != nil {
			return out
		}
		var names []string
		for _, tool := range tools {
			names = append(names, tool.Name)
		}
		return strings.Join(names, " ")
	}
	h.sb("config", "set", "mcp.toolsets", "exec,transfer")
	h.sb("config", "set", "mcp.tools", "file_read")
	h.sb("config", "set", "mcp.exclude_tools", "exec_kill, pull")
	if got := names(""); got != "exec exec_wait run_code file_read push diff apply" {
		t.Errorf("got %s", got)
	}
	if got := names("--tools exec_kill --exclude-tools push"); got != "exec_kill" {
		t.Errorf("with flags: %s", got)
	}
	h.sb("config", "set", "mcp.mode", "read-only")
	if got := names(""); got != "file_read diff" {
		t.Errorf("read-only: %s", got)
	}
	if got := names("--read-only=false --tools push"); got != "push" {
		t.Errorf("with --read-only=false: %s", got)
	}
	h.sb("config", "set", "mcp.exclude_tools", "nosuch")
	if got := names(""); !strings.Contains(got, `there is no tool \"nosuch\"`) {
		t.Errorf("an unknown tool: %s", got)
	}
}
