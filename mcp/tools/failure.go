package tools

import (
	"errors"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
)

// FailureKey is the key in _meta of a failed result's kind and hint, for programs.
const FailureKey = "sb/error"

// Failure returns the result of a failed call: a text for the model, and kind and hint for programs. It has no
// structured content, since clients validate that against the output schema.
func (w Words) Failure(err error) *mcp.CallToolResult {
	kind, hint, message := core.KindOf(err), w.Hint(core.HintOf(err)), err.Error()
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
