package transport

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
)

// envelope has the fields that distinguish the kinds of messages.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// answers reports whether the message answers a request of the server.
func (e envelope) answers() bool {
	return e.Method == "" && len(e.ID) > 0 && (e.Result != nil || e.Error != nil)
}

func rpcRequest(id int64, method mcp.MCPMethod, params any) map[string]any {
	message := map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": id, "method": method}
	if params != nil {
		message["params"] = params
	}
	return message
}

// tooBusy answers a request for which no slot is free.
func tooBusy(id json.RawMessage) mcp.JSONRPCError {
	return mcp.NewJSONRPCError(mcp.NewRequestId(id), mcp.INTERNAL_ERROR, "too many requests at the same time", nil)
}

// handleMessage calls mcp-go's HandleMessage. A panic ends only the request. The answer has the original id, since
// mcp-go reads numbers as floating point. The code of its error distinguishes faults of the client from faults of the
// server.
func (e *Endpoint) handleMessage(ctx context.Context, id, message json.RawMessage) (response mcp.JSONRPCMessage) {
	code := mcp.INTERNAL_ERROR
	defer func() {
		if r := recover(); r != nil {
			e.Log.ErrorContext(ctx, "a request panicked", "panic", r)
			response = mcp.NewJSONRPCError(mcp.NewRequestId(id), mcp.INTERNAL_ERROR, "internal error", nil)
		}
	}()
	switch response := e.Protocol.HandleMessage(context.WithValue(ctx, codeKey{}, &code), message).(type) {
	case mcp.JSONRPCResponse:
		response.ID, response.Result = mcp.NewRequestId(id), withRootsParams(response.Result)
		return response
	case mcp.JSONRPCError:
		if len(id) > 0 {
			response.ID = mcp.NewRequestId(id)
		}
		if response.Error.Code == mcp.INTERNAL_ERROR {
			response.Error.Code = code
		}
		return response
	default:
		return response
	}
}

type codeKey struct{}

// HookErrors records the cause of a failed request, since mcp-go reports every failure of a prompt or a resource as an
// internal error.
func HookErrors(hooks *server.Hooks) {
	hooks.AddOnError(func(ctx context.Context, _ any, _ mcp.MCPMethod, _ any, err error) {
		code, ours := ctx.Value(codeKey{}).(*int)
		if !ours {
			return
		}
		switch kind := core.KindOf(err); {
		case kind == core.KindNotFound && !server.IsModernRequest(ctx):
			*code = mcp.RESOURCE_NOT_FOUND
		case kind == core.KindNotFound || kind == core.KindUsage:
			*code = mcp.INVALID_PARAMS
		}
	})
}

// encode returns a message as JSON; nil if encoding fails.
func (e *Endpoint) encode(ctx context.Context, message any) json.RawMessage {
	encoded, err := json.Marshal(message)
	if err != nil {
		e.Log.ErrorContext(ctx, "a message cannot be encoded", "error", err)
		return nil
	}
	return encoded
}
