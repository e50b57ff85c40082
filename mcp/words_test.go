package mcp

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// No text for a model names a tool that is not served, for any choice of tools and any system.
func TestTextsNameServedTools(t *testing.T) {
	var names []string
	for _, tool := range tools.Catalogue() {
		if strings.Contains(tool.Name, "_") {
			names = append(names, tool.Name)
		}
	}
	mentioned := regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\b`)
	for name, opts := range map[string]setup.Options{
		"exec only": {Tools: []string{"exec"}}, "files": {Toolsets: []string{setup.Files}}, "default": {},
		"read only": {ReadOnly: true}, "all": {Toolsets: []string{setup.All}}, "code": {Tools: []string{"run_code"}},
		setup.MCP4Modal: {Compat: setup.MCP4Modal}, setup.DockerSandboxServer: {Compat: setup.DockerSandboxServer},
		setup.MCPSandbox: {Compat: setup.MCPSandbox}, setup.CodeSandboxMCP: {Compat: setup.CodeSandboxMCP},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, opts)
			a := b.connect(t)
			listed, err := a.client.ListTools(t.Context(), mcp.ListToolsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			served := map[string]bool{}
			for _, tool := range listed.Tools {
				served[tool.Name] = true
			}
			check := func(where, text string) {
				t.Helper()
				for _, name := range mentioned.FindAllString(text, -1) {
					if !served[name] {
						t.Errorf("%s names %s, which is not served: %s", where, name, text)
					}
				}
				if strings.Contains(text, " sb ") && !strings.Contains(text, "for the user: ") {
					t.Errorf("%s has a command of the shell: %s", where, text)
				}
			}
			check("the instructions", b.instructions())
			for _, tool := range listed.Tools {
				check(tool.Name, tool.Description)
				if tool.Description == "" {
					t.Errorf("%s has no description", tool.Name)
				}
			}
			if served["exec"] {
				check("an absent sandbox", a.fails(core.KindNotFound, "exec", args{"sandbox": "none", "command": "true"}))
			}
			if served["execute_command"] {
				text := a.fails(
					core.KindNotFound, "execute_command", args{"sandbox_id": "none", "command": []string{"true"}},
				)
				if check("an absent sandbox", text); !strings.Contains(text, "list_sandboxes shows") {
					t.Errorf("an absent sandbox: %s", text)
				}
			}
		})
	}
}

// Hints are for the shell. An assistant gets the tools that do the same.
func TestHints(t *testing.T) {
	words := tools.NewWords(map[string]string{"sandbox_resume": "sandbox_resume", "sandbox_list": "list_sandboxes"})
	for hint, want := range map[string]string{
		"sb resume dev":                                "sandbox_resume",
		"sb ls --all lists them":                       "list_sandboxes with all: true lists them",
		"sb ls --all; sandbox_launch creates one":      "list_sandboxes with all: true",
		"choose another name, or end it: sb terminate": "",
		"name it; remove it with: sb terminate dev":    "name it",
		"check it with: sb doctor docker":              "for the user: check it with: sb doctor docker",
		"wait: sb inspect dev shows the state":         "wait: list_sandboxes shows the state",
		"launch it with --persist, or end it":          "launch it with persist, or end it",
		"start the server with --allow-path DIR":       "start the server with --allow-path DIR",
		"nothing to replace":                           "nothing to replace",
	} {
		if got := words.Hint(hint); got != want {
			t.Errorf("%q: got %q, want %q", hint, got, want)
		}
	}
}
