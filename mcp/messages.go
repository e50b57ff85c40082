package mcp

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
)

// envelope is what tells the kinds of messages apart.
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

// answers says whether the message answers a request of the server.
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

// tooBusy answers the request that no slot is left for.
func tooBusy(id json.RawMessage) mcp.JSONRPCError {
	return mcp.NewJSONRPCError(mcp.NewRequestId(id), mcp.INTERNAL_ERROR, "too many requests at the same time", nil)
}

// handleMessage is mcp-go's, where a panic is the end of one request and not of the server.
func (s *Server) handleMessage(ctx context.Context, message json.RawMessage) (response mcp.JSONRPCMessage) {
	defer func() {
		if r := recover(); r != nil {
			s.log.ErrorContext(ctx, "a request panicked", "panic", r)
			var head struct {
				ID any `json:"id"`
			}
			_ = json.Unmarshal(message, &head)
			response = mcp.NewJSONRPCError(mcp.NewRequestId(head.ID), mcp.INTERNAL_ERROR, "internal error", nil)
		}
	}()
	return s.mcp.HandleMessage(ctx, message)
}

// encode makes a message's JSON; nil if that cannot be.
func (s *Server) encode(ctx context.Context, message any) json.RawMessage {
	encoded, err := json.Marshal(message)
	if err != nil {
		s.log.ErrorContext(ctx, "a message cannot be encoded", "error", err)
		return nil
	}
	return encoded
}
