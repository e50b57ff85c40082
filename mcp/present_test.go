package mcp

import (
	"context"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// Many clients show a model only the structured content of a result that has it. So a tool has either a text or
// structured content, and a program finds the record of a text in _meta.
func TestOneResultForAModel(t *testing.T) {
	a := newBench(t, setup.Options{Toolsets: []string{setup.All}}).connect(t)
	sb := a.Launch(args{})
	call := func(tool string, arguments args) *mcp.CallToolResult {
		t.Helper()
		request := mcp.CallToolRequest{}
		request.Params.Name, request.Params.Arguments = tool, arguments
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		result, err := a.client.CallTool(ctx, request)
		if err != nil || result.IsError {
			t.Fatalf("%s: %v, %s", tool, err, textOf(result))
		}
		return result
	}
	result := call("exec", args{"sandbox": sb, "command": "echo out"})
	if result.StructuredContent != nil || !strings.Contains(textOf(result), "exit code 0") {
		t.Errorf("exec: %+v", result)
	}
	record, _ := result.Meta.AdditionalFields[tools.RecordKey].(map[string]any)
	if record["stdout"] != "out\n" || record["exit_code"] != 0.0 {
		t.Errorf("the record of exec: %v", record)
	}
	result = call("sandbox_stats", args{"sandbox": sb})
	if result.StructuredContent == nil || result.Meta != nil && result.Meta.AdditionalFields[tools.RecordKey] != nil ||
		!strings.HasPrefix(textOf(result), "{") {
		t.Errorf("sandbox_stats: %+v", result)
	}
	for _, tool := range tools.Catalogue() {
		if listed := tool.Definition().RawOutputSchema != nil; listed != tool.Structured {
			t.Errorf("%s: an output schema is %v, structured content is %v", tool.Name, listed, tool.Structured)
		}
	}
}
