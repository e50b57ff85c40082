package mcp

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// The definition of each tool is a contract: a change shows in its file below testdata/tools. UPDATE=1 rewrites them.
func TestToolSnapshots(t *testing.T) {
	for _, tool := range tools.Catalogue() {
		t.Run(tool.Name, func(t *testing.T) {
			encoded, err := json.MarshalIndent(tool.Definition(), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "tools", tool.Name+".json"), append(encoded, '\n'))
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s (-want +got):\n%s", file, cmp.Diff(string(want), string(got)))
	}
}

func TestEveryTool(t *testing.T) {
	seen := map[string]bool{}
	for _, tool := range tools.Catalogue() {
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(tool.Name) || seen[tool.Name] {
			t.Errorf("%q is not a valid name, or is there twice", tool.Name)
		}
		seen[tool.Name] = true
		if tool.Title == "" || len(tool.Description) < 20 || !strings.HasSuffix(tool.Description, ".") {
			t.Errorf("%s needs a title and a description of whole sentences", tool.Name)
		}
		if !slices.Contains(setup.Toolsets(), tool.Toolset) {
			t.Errorf("%s is in no toolset", tool.Name)
		}
		if tool.ReadOnly && (tool.Destructive || !tool.Idempotent) {
			t.Errorf("%s changes nothing, and so destroys nothing and can be repeated", tool.Name)
		}
		annotations := tool.Definition().Annotations
		if annotations.ReadOnlyHint == nil || annotations.DestructiveHint == nil || annotations.IdempotentHint == nil ||
			annotations.OpenWorldHint == nil {
			t.Errorf("%s leaves an annotation to the client's guess", tool.Name)
		}
		for _, s := range []*tools.Schema{tool.In, tool.Out} {
			if s.Root.Type != "object" {
				t.Errorf("%s: a schema is a %s, not an object", tool.Name, s.Root.Type)
			}
			if bytes.Contains(s.Encoded, []byte(`"null"`)) {
				t.Errorf("%s: something may be null: %s", tool.Name, s.Encoded)
			}
			if _, err := s.Root.Resolve(nil); err != nil {
				t.Errorf("%s: %v", tool.Name, err)
			}
		}
		for name := range tool.In.Root.Properties {
			if !regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`).MatchString(name) {
				t.Errorf("%s: %q is not a valid name of an argument", tool.Name, name)
			}
		}
	}
}

// All that a client sends to a model about the default tools has at most 3 500 tokens.
func TestDefaultToolsAreSmall(t *testing.T) {
	list, err := ListTools(setup.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tokens := 0
	for _, tool := range list {
		tokens += tool.Tokens
	}
	if len(list) > 16 || tokens > 3500 {
		t.Errorf("%d tools of about %d tokens by default", len(list), tokens)
	}
}

func TestSelectTools(t *testing.T) {
	names := func(opts setup.Options) []string {
		t.Helper()
		tools, err := toolsFor(opts)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range tools {
			names = append(names, tool.Name)
		}
		return names
	}
	if got := names(setup.Options{Toolsets: []string{setup.Exec}}); !slices.Equal(
		got, []string{"exec", "exec_wait", "exec_kill", "run_code"},
	) {
		t.Errorf("toolset exec: %v", got)
	}
	if got := names(setup.Options{Tools: []string{"ports", "exec"}}); !slices.Equal(got, []string{"exec", "ports"}) {
		t.Errorf("two tools: %v", got)
	}
	if got := names(setup.Options{Toolsets: []string{setup.All}}); len(got) != len(tools.Catalogue()) {
		t.Errorf("all: %v", got)
	}
	for _, name := range names(setup.Options{ReadOnly: true}) {
		for _, tool := range tools.Catalogue() {
			if tool.Name == name && !tool.ReadOnly {
				t.Errorf("read-only serves %s", name)
			}
		}
	}
	for _, bad := range []setup.Options{
		{Toolsets: []string{"exce"}}, {Tools: []string{"rm"}}, {Tools: []string{"exec"}, ReadOnly: true},
	} {
		if tools, err := toolsFor(bad); err == nil {
			t.Errorf("%+v serves %d tools", bad, len(tools))
		}
	}
}

// checkOutput validates a tool's structured content against the tool's output schema.
func checkOutput(t *testing.T, tool string, structured any) {
	t.Helper()
	for _, known := range tools.Catalogue() {
		if known.Name != tool {
			continue
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(known.Out.Encoded, &s); err != nil {
			t.Fatal(err)
		}
		resolved, err := s.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(structured); err != nil {
			t.Errorf("%s: its result differs from its schema: %v", tool, err)
		}
	}
}
