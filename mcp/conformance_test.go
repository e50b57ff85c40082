package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// unsupported are the checks of the suite that a server on mcp-go 1.2.1 cannot pass: mcp-go passes on no code and no
// data of the errors of tools and resources. sb has no tool that needs a capability of its client.
func unsupported() []string {
	return []string{
		"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400", "sep-2164-data-uri",
	}
}

// Runs all server scenarios of the public conformance suite, at both protocols, against the product's adapter and HTTP
// stack, with the tools, resources and prompts that the suite needs. The suite's extensions are not served.
func TestConformance(t *testing.T) {
	dir := programtest.NodeModules(t)
	program := filepath.Join(dir, "@modelcontextprotocol", "conformance", "dist", "index.js")
	s := newSite(t, setup.Options{Version: "1", HTTP: setup.HTTP{Rate: -1}})
	addFixtures(s.Server)
	for _, version := range []string{mcp.ProtocolVersion20251125, mcp.ProtocolVersion20260728} {
		t.Run(version, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			listed, err := programtest.Node(ctx, dir, program, "list", "--server", "--spec-version", version).Output()
			if err != nil {
				t.Fatal(err)
			}
			results := t.TempDir()
			cmd := programtest.Node(
				ctx, dir, program, "server", "--url", s.web.URL()+"/mcp", "--suite", "all", "--spec-version", version,
				"--output-dir", results,
			)
			out, err := cmd.CombinedOutput()
			if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
				t.Fatalf("%v\n%s", err, out)
			}
			run := 0
			for line := range strings.Lines(string(listed)) {
				scenario, isScenario := strings.CutPrefix(strings.TrimSpace(line), "- ")
				scenario, of, _ := strings.Cut(scenario, " ")
				if !isScenario || !strings.Contains(of, version) {
					continue
				}
				run++
				t.Run(scenario, func(t *testing.T) { checkScenario(t, results, scenario) })
			}
			if run < 30 {
				t.Errorf("the suite has only %d scenarios:\n%s", run, listed)
			}
		})
	}
}

// checkScenario fails for each check of a scenario that did not succeed.
func checkScenario(t *testing.T, results, scenario string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(results, "server-"+scenario+"-20*", "checks.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the scenario has %d results: %v", len(files), err)
	}
	encoded, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var checks []struct{ ID, Status, Description, ErrorMessage string }
	if err := json.Unmarshal(encoded, &checks); err != nil || len(checks) == 0 {
		t.Fatalf("the scenario has %d checks: %v", len(checks), err)
	}
	for _, check := range checks {
		expected := !slices.Contains(unsupported(), check.ID)
		if passed := check.Status != "FAILURE" && check.Status != "WARNING"; passed != expected {
			t.Errorf("%s: %s, %s: %s", check.ID, check.Status, check.Description, check.ErrorMessage)
		}
	}
}

// The inspector's command line lists and calls tools. Each call starts Node, so TestTypeScriptClient calls the others.
func TestInspector(t *testing.T) {
	dir := programtest.NodeModules(t)
	b := newSite(t, setup.Options{Toolsets: []string{setup.All}, HTTP: setup.HTTP{Rate: -1}})
	inspect := func(t *testing.T, arguments ...string) map[string]any {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		program := filepath.Join(dir, "@modelcontextprotocol", "inspector", "cli", "build", "cli.js")
		var stderr bytes.Buffer
		cmd := programtest.Node(ctx, dir, append([]string{program, "--cli", b.web.URL() +
			"/mcp", "--transport", "http"}, arguments...)...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s%s", err, out, stderr.Bytes())
		}
		var got map[string]any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return got
	}
	listed, _ := inspect(t, "--method", "tools/list")["tools"].([]any)
	if len(listed) != len(tools.Catalogue()) {
		t.Errorf("%d tools are listed, not %d", len(listed), len(tools.Catalogue()))
	}
	sb := b.visit(t, "").Launch(args{"persist": true})
	call := []string{"--method", "tools/call", "--tool-arg", "sandbox=" + sb, "--tool-name"}
	for _, test := range [][]string{{"exec", "--tool-arg", "command=true"}, {"sandbox_terminate"}} {
		got := inspect(t, append(call, test...)...)
		if content, _ := got["content"].([]any); len(content) == 0 || got["isError"] == true {
			t.Errorf("%v: %v", test, got)
		}
	}
}

// The client of the TypeScript SDK calls every tool of the product. It validates the results against the schemas.
func TestTypeScriptClient(t *testing.T) {
	dir := programtest.NodeModules(t)
	b := newSite(t, setup.Options{Toolsets: []string{setup.All}, HTTP: setup.HTTP{Rate: -1}})
	a := b.visit(t, "")
	sb := a.Launch(args{"persist": true})
	a.Call("exec", args{"sandbox": sb, "command": "sleep 600", "background": true})
	given := args{
		"sandbox": sb, "command": "true", "exec_id": "1", "wait_seconds": 0, "language": "bash", "code": "true",
		"path": "/tmp/f", "content": "text", "packages": []string{"x"}, "package": "x", "timeout_seconds": 600,
		"local_path": "/tmp/x", "name": "made-here", "network": "none", "to": "fake",
		"edits": []args{{"old": "text", "new": "more text"}}, "pattern": "text", "image": "x",
	}
	type toolCall struct {
		Name      string `json:"name"`
		Arguments args   `json:"arguments"`
	}
	var calls []toolCall
	for _, tool := range tools.Catalogue() {
		if tool.Name == "sandbox_terminate" || tool.Name == "sandbox_launch" {
			continue // TestInspector calls the one, and Launch the other
		}
		call := toolCall{tool.Name, args{}}
		for name, value := range given {
			if _, known := tool.In.Root.Properties[name]; known {
				call.Arguments[name] = value
			}
		}
		calls = append(calls, call)
	}
	input, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := programtest.Node(ctx, dir, filepath.Join("testdata", "client.mjs"), dir, b.web.URL()+"/mcp")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr.Bytes())
	}
	results := json.NewDecoder(bytes.NewReader(out))
	for _, call := range calls {
		var got struct {
			Thrown  string         `json:"thrown"`
			Content []any          `json:"content"`
			Meta    map[string]any `json:"_meta"`
		}
		if err := results.Decode(&got); err != nil {
			t.Fatalf("%s: %v", call.Name, err)
		}
		if len(got.Content) == 0 || got.Thrown != "" {
			t.Errorf("%s: no content: %s", call.Name, got.Thrown)
		}
		problem, _ := got.Meta[tools.FailureKey].(map[string]any)
		if problem["kind"] == "usage" || problem["kind"] == "internal" {
			t.Errorf("%s failed: %v", call.Name, problem)
		}
	}
}
