package tools

import (
	"errors"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
)

// FailureKey is where a failed result's _meta has its kind and hint for programs.
const FailureKey = "sb/error"

// Failure is the result of a call that failed: text for the model, kind and hint for programs. It is no
// structured content, which clients hold against the output schema.
func Failure(err error) *mcp.CallToolResult {
	kind, hint, message := core.KindOf(err), core.HintOf(err), err.Error()
	text := "error (" + kind.String() + "): " + message
	meta := map[string]any{"kind": kind.String(), "message": message}
	if hint != "" {
		text += "\nhint: " + hint
		meta["hint"] = hint
	}
	if e, ok := errors.AsType[*core.Error](err); ok && e.Op != "" {
		meta["op"] = e.Op
	}
	result := mcp.NewToolResultError(text)
	result.Meta = mcp.NewMetaFromMap(map[string]any{FailureKey: meta})
	return result
}
