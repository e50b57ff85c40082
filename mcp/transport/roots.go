package transport

import (
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
)

// withRootsParams gives the requests for roots in a result empty params. mcp-go leaves them out, which the protocol
// allows, and the Go SDK refuses.
func withRootsParams(result any) any {
	call, ok := result.(*mcp.CallToolResult)
	if !ok {
		return result
	}
	asks := false
	for _, request := range call.InputRequests {
		asks = asks || request.Method == mcp.MethodListRoots
	}
	if !asks {
		return result
	}
	encoded, err := json.Marshal(call)
	if err != nil {
		return result
	}
	var fields map[string]json.RawMessage
	var requests map[string]map[string]any
	if json.Unmarshal(encoded, &fields) != nil || json.Unmarshal(fields["inputRequests"], &requests) != nil {
		return result
	}
	for _, request := range requests {
		if request["method"] == string(mcp.MethodListRoots) {
			request["params"] = struct{}{}
		}
	}
	if fields["inputRequests"], err = json.Marshal(requests); err != nil {
		return result
	}
	return fields
}
