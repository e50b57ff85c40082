package tools

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// Tool is one tool as an assistant sees it. Zero hints mean that it changes something, destroys nothing, is not
// idempotent and works in a closed world.
type Tool struct {
	Name, Title string
	// Description is written for a model: the effect of the tool, its use and its result.
	Description string
	// Toolset is the toolset that enables the tool.
	Toolset string
	// Extra tools are served only if their toolset or they themselves are selected by name.
	Extra bool
	// ReadOnly, Destructive, Idempotent and OpenWorld are the four annotations of the protocol.
	ReadOnly, Destructive, Idempotent, OpenWorld bool
	// Continues means that a call that outlasts the soft deadline continues without its client. The same call again
	// returns its result.
	Continues bool
	// Structured means that results have structured content, and that the list has its schema. Define sets it for an
	// output without a text of its own: many clients show a model only the structured content of a result that has both.
	Structured bool

	In, Out *Schema
	Run     func(ctx context.Context, c *Call, arguments json.RawMessage) (*mcp.CallToolResult, error)
}

// texter is an output with a text for a model, instead of its JSON alone.
type texter interface{ Text() string }

// contenter is an output with attachments: pictures or links.
type contenter interface{ Attachments() []mcp.Content }

// NoneIn is the input of a tool without arguments.
type NoneIn struct{}

// Define makes a tool of a function. In and Out are structs whose JSON names and jsonschema tags define the schemas. An
// enum tag lists a field's values ("a|b"), and a default tag has its default. Fields without omitempty are required.
func Define[In, Out any](tool Tool, run func(ctx context.Context, c *Call, in In) (Out, error)) Tool {
	tool.In, tool.Out = schemaOf[In](true), schemaOf[Out](false)
	_, hasText := any(*new(Out)).(texter)
	tool.Structured = !hasText
	tool.Run = func(ctx context.Context, c *Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		var in In
		if err := tool.In.Decode(arguments, &in); err != nil {
			return nil, err
		}
		work := func(ctx context.Context) (*mcp.CallToolResult, error) {
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
		if !tool.Continues {
			return work(ctx)
		}
		canonical, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("the arguments cannot be encoded: %w", err)
		}
		return c.continued(ctx, tool.Name, string(canonical), work)
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

// RecordKey is the key in _meta of the output of a tool without structured content, as JSON. It is for programs:
// clients do not show it to a model.
const RecordKey = "sb/result"

// maxRecord bounds a record, in bytes; larger ones are left out.
const maxRecord = 512 << 10

// Present makes the result that clients get: the record of a tool without structured content moves to _meta.
func (t Tool) Present(result *mcp.CallToolResult) *mcp.CallToolResult {
	if t.Structured || result.IsError || result.StructuredContent == nil {
		return result
	}
	presented := *result
	if record, ok := result.StructuredContent.(json.RawMessage); ok && len(record) <= maxRecord {
		presented.Meta = mcp.NewMetaFromMap(map[string]any{RecordKey: record})
	}
	presented.StructuredContent = nil
	return &presented
}

// Definition returns the tool's entry in tools/list.
func (t Tool) Definition() mcp.Tool {
	definition := mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, RawInputSchema: t.In.Encoded,
		Annotations: mcp.ToolAnnotation{
			ReadOnlyHint: &t.ReadOnly, DestructiveHint: &t.Destructive,
			IdempotentHint: &t.Idempotent, OpenWorldHint: &t.OpenWorld,
		},
	}
	if t.Structured {
		definition.RawOutputSchema = t.Out.Encoded
	}
	return definition
}
