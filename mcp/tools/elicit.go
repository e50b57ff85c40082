package tools

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
)

// InputNeeded is the error of a tool that needs the user's input. The client's answer comes with a second call of the
// tool. For clients of older protocols, mcp-go requests the input and calls the tool again.
type InputNeeded struct{ Ask *server.InputRequestBuilder }

// Error implements error.
func (*InputNeeded) Error() string { return "input is needed" }

// Capabilities returns the capabilities that the client declared.
func (c *Call) Capabilities(ctx context.Context) mcp.ClientCapabilities {
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.ClientCapabilities != nil {
		return *info.ClientCapabilities
	}
	if client, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok {
		return client.GetClientCapabilities()
	}
	return c.Host.Sessions.Capabilities(ctx)
}

// confirm asks the user before a costly or irreversible operation. It returns nil if the user agrees or the client
// cannot ask. A client that could ask, over a transport that cannot, gets an error.
func (c *Call) confirm(ctx context.Context, id, question string) error {
	// A client that declares no mode has forms, the only mode of older protocols.
	can := c.Capabilities(ctx).Elicitation
	if c.Host.Options.NoElicit || can == nil || can.Form == nil && can.URL != nil {
		return nil
	}
	if _, can := server.ClientSessionFromContext(ctx).(server.SessionWithElicitation); !can &&
		!server.IsModernRequest(ctx) {
		return core.Errorf(core.KindUnsupported, id, "", "this needs the user's consent, and this transport cannot "+
			"request it").
			WithHint("connect over stdio or streamable HTTP; or start the server with --no-confirm, which never asks")
	}
	answer := server.ElicitationResponse(c.Request.Params.InputResponses, id)
	if answer == nil {
		return &InputNeeded{server.NewInputRequestBuilder("").Elicit(id, mcp.ElicitationParams{
			Message: question,
			RequestedSchema: map[string]any{
				"type": "object", "required": []string{"confirm"},
				"properties": map[string]any{
					"confirm": map[string]any{"type": "boolean", "title": "Continue", "description": question, "default": false},
				},
			},
		})}
	}
	content, _ := answer.Content.(map[string]any)
	if agreed, _ := content["confirm"].(bool); answer.Action == mcp.ElicitationResponseActionAccept && agreed {
		return nil
	}
	return core.Errorf(core.KindCanceled, id, "", "the user did not agree").
		WithHint("do not retry it unless the user requests it")
}
