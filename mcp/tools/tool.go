package tools

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// Tool is one tool as an assistant sees it. The zero hints say that it changes something,
// nothing irrevocably, not twice the same, in a closed world.
type Tool struct {
	Name, Title string
	// Description is written for a model: what it does, when to use it, what comes back.
	Description string
	// Toolset is the group that it is switched on with.
	Toolset string
	// Extra tools are served only when their toolset or they themselves are asked for.
	Extra bool
	// ReadOnly, Destructive, Idempotent and OpenWorld are the four annotations of the protocol.
	ReadOnly, Destructive, Idempotent, OpenWorld bool

	In, Out *Schema
	Run     func(ctx context.Context, c *Call, arguments json.RawMessage) (*mcp.CallToolResult, error)
}

// texter is an output whose text twin is more than its JSON.
type texter interface{ Text() string }

// contenter is an output with content beside its text: pictures, links.
type contenter interface{ Attachments() []mcp.Content }

// NoneIn is the input of a tool without arguments.
type NoneIn struct{}

// Define makes a tool of a function. In and Out are structs: their JSON names and jsonschema tags make
// the schemas, an enum tag lists what a field may be ("a|b"), a default tag what it is when left out, and
// fields without omitempty are required.
func Define[In, Out any](tool Tool, run func(ctx context.Context, c *Call, in In) (Out, error)) Tool {
	tool.In, tool.Out = schemaOf[In](true), schemaOf[Out](false)
	tool.Run = func(ctx context.Context, c *Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		var in In
		if err := tool.In.Decode(arguments, &in); err != nil {
			return nil, err
		}
		out, err := run(ctx, c, in)
		if err != nil {
			return nil, err
		}
		result, err := ResultOf(out)
		if err != nil {
			return nil, err
		}
		for _, notice := range c.notices {
			result.Content = append(result.Content, mcp.NewTextContent("note: "+notice))
		}
		return result, nil
	}
	return tool
}

// ResultOf renders an output as structured content and its text twin.
func ResultOf(out any) (*mcp.CallToolResult, error) {
	encoded, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("the result cannot be encoded: %w", err)
	}
	text := string(encoded)
	if t, ok := out.(texter); ok {
		text = t.Text()
	}
	result := &mcp.CallToolResult{
		Content: []mcp.Content{mcp.NewTextContent(text)}, StructuredContent: json.RawMessage(encoded),
	}
	if c, ok := out.(contenter); ok {
		result.Content = append(result.Content, c.Attachments()...)
	}
	return result, nil
}

// Definition is the tool as tools/list tells it.
func (t Tool) Definition() mcp.Tool {
	return mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description,
		RawInputSchema: t.In.Encoded, RawOutputSchema: t.Out.Encoded,
		Annotations: mcp.ToolAnnotation{
			Title: t.Title, ReadOnlyHint: &t.ReadOnly, DestructiveHint: &t.Destructive,
			IdempotentHint: &t.Idempotent, OpenWorldHint: &t.OpenWorld,
		},
	}
}
