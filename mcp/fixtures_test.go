package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// The smallest picture and sound.
const (
	fixturePicture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	fixtureSound   = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
)

// addFixtures adds the tools, resources and prompts that the conformance suite needs.
func addFixtures(s *Server) {
	s.mcp.EnableSampling()
	addRounds(s)
	for _, tool := range fixtureTools() {
		s.mcp.AddTool(tool.Definition(), s.handler(tool))
	}
	text := func(uri, mimeType, text string) []mcp.ResourceContents {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: mimeType, Text: text}}
	}
	s.mcp.AddResource(mcp.NewResource("test://static-text", "text", mcp.WithMIMEType("text/plain")), func(
		context.Context, mcp.ReadResourceRequest,
	) ([]mcp.ResourceContents, error) {
		return text("test://static-text", "text/plain", "This is the content of the static text resource."), nil
	})
	s.mcp.AddResource(mcp.NewResource("test://static-binary", "binary", mcp.WithMIMEType("image/png")), func(
		context.Context, mcp.ReadResourceRequest,
	) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{
			mcp.BlobResourceContents{URI: "test://static-binary", MIMEType: "image/png", Blob: fixturePicture},
		}, nil
	})
	s.mcp.AddResource(mcp.NewResource("test://watched-resource", "watched", mcp.WithMIMEType("text/plain")), func(
		context.Context, mcp.ReadResourceRequest,
	) ([]mcp.ResourceContents, error) {
		return text("test://watched-resource", "text/plain", "watched"), nil
	})
	s.mcp.AddResourceTemplate(mcp.NewResourceTemplate(
		"test://template/{id}/data", "template", mcp.WithTemplateMIMEType("application/json"),
	), func(_ context.Context, request mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		id := strings.Split(request.Params.URI, "/")[3]
		return text(
			request.Params.URI, "application/json",
			fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id, id),
		), nil
	})
	prompt := func(name string, messages func(map[string]string) []mcp.PromptMessage, arguments ...string) {
		p := mcp.Prompt{Name: name, Description: "a fixture"}
		for _, argument := range arguments {
			p.Arguments = append(p.Arguments, mcp.PromptArgument{Name: argument, Description: "a fixture", Required: true})
		}
		s.mcp.AddPrompt(p, func(_ context.Context, request mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return mcp.NewGetPromptResult(p.Description, messages(request.Params.Arguments)), nil
		})
	}
	user := func(content mcp.Content) mcp.PromptMessage { return mcp.NewPromptMessage(mcp.RoleUser, content) }
	prompt("test_simple_prompt", func(map[string]string) []mcp.PromptMessage {
		return []mcp.PromptMessage{user(mcp.NewTextContent("This is a simple prompt for testing."))}
	})
	prompt("test_prompt_with_arguments", func(a map[string]string) []mcp.PromptMessage {
		return []mcp.PromptMessage{
			user(mcp.NewTextContent(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"]))),
		}
	}, "arg1", "arg2")
	prompt("test_prompt_with_embedded_resource", func(a map[string]string) []mcp.PromptMessage {
		return []mcp.PromptMessage{
			user(
				mcp.NewEmbeddedResource(mcp.TextResourceContents{
					URI: a["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing.",
				}),
			),
		}
	}, "resourceUri")
	prompt("test_prompt_with_image", func(map[string]string) []mcp.PromptMessage {
		return []mcp.PromptMessage{user(mcp.NewImageContent(fixturePicture, "image/png"))}
	})
}

// fixture is a tool without the fields that only products need.
func fixture(
	name, input string, run func(context.Context, *tools.Call, map[string]any) (*mcp.CallToolResult, error),
) tools.Tool {
	if input == "" {
		input = `{"type":"object","properties":{}}`
	}
	return tools.Tool{
		Name: name, Title: name, Description: "A fixture of the conformance suite.",
		In: &tools.Schema{Encoded: json.RawMessage(input)}, Out: &tools.Schema{},
		Run: func(ctx context.Context, c *tools.Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			var in map[string]any
			if len(arguments) > 0 {
				if err := json.Unmarshal(arguments, &in); err != nil {
					return nil, err
				}
			}
			return run(ctx, c, in)
		},
	}
}

func fixtureTools() []tools.Tool {
	type handler = func(context.Context, *tools.Call, map[string]any) (*mcp.CallToolResult, error)
	respond := func(content ...mcp.Content) handler {
		return func(context.Context, *tools.Call, map[string]any) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: content}, nil
		}
	}
	embedded := func(uri, mimeType, text string) mcp.Content {
		return mcp.NewEmbeddedResource(mcp.TextResourceContents{URI: uri, MIMEType: mimeType, Text: text})
	}
	asks := func(schema string) func(context.Context, *tools.Call, map[string]any) (*mcp.CallToolResult, error) {
		return func(_ context.Context, c *tools.Call, in map[string]any) (*mcp.CallToolResult, error) {
			answer := server.ElicitationResponse(c.Request.Params.InputResponses, "ask")
			if answer == nil {
				message, _ := in["message"].(string)
				if message == "" {
					message = "Please answer"
				}
				return nil, &tools.InputNeeded{Ask: server.NewInputRequestBuilder("").
					Elicit("ask", mcp.ElicitationParams{Message: message, RequestedSchema: json.RawMessage(schema)})}
			}
			content, err := json.Marshal(answer.Content)
			return mcp.NewToolResultText(
				fmt.Sprintf("Elicitation completed: action=%s, content=%s", answer.Action, content),
			), err
		}
	}
	return []tools.Tool{
		fixture("test_simple_text", "", respond(mcp.NewTextContent("This is a simple text response for testing."))),
		fixture("test_image_content", "", respond(mcp.NewImageContent(fixturePicture, "image/png"))),
		fixture("test_audio_content", "", respond(mcp.NewAudioContent(fixtureSound, "audio/wav"))),
		fixture(
			"test_embedded_resource", "",
			respond(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")),
		),
		fixture("test_multiple_content_types", "", respond(
			mcp.NewTextContent("Multiple content types test:"), mcp.NewImageContent(fixturePicture, "image/png"),
			embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`),
		)),
		fixture("test_error_handling", "", func(context.Context, *tools.Call, map[string]any) (*mcp.CallToolResult, error) {
			return nil, core.Errorf(core.KindConflict, "test", "", "This tool intentionally returns an error for testing")
		}),
		fixture("test_tool_with_logging", "", func(
			ctx context.Context, c *tools.Call, _ map[string]any,
		) (*mcp.CallToolResult, error) {
			for _, message := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
				c.Notify()
				if err := server.ServerFromContext(ctx).
					SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelInfo, "test", message)); err != nil {
					return nil, err
				}
			}
			return mcp.NewToolResultText("logged"), nil
		}),
		fixture("test_tool_with_progress", "", func(
			ctx context.Context, c *tools.Call, _ map[string]any,
		) (*mcp.CallToolResult, error) {
			for _, step := range []string{"begin", "middle", "end"} {
				c.Progress(ctx, step)
			}
			return mcp.NewToolResultText("done"), nil
		}),
		fixture("test_sampling", `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`, func(
			_ context.Context, c *tools.Call, in map[string]any,
		) (*mcp.CallToolResult, error) {
			answer := server.SamplingResponse(c.Request.Params.InputResponses, "sample")
			if answer == nil {
				prompt, _ := in["prompt"].(string)
				return nil, &tools.InputNeeded{Ask: server.NewInputRequestBuilder("").Sample("sample", mcp.CreateMessageParams{
					MaxTokens: 100, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(prompt)}},
				})}
			}
			content, err := json.Marshal(answer.Content)
			return mcp.NewToolResultText("LLM response: " + string(content)), err
		}),
		fixture("test_elicitation", `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
			asks(
				`{"type":"object","properties":{"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}},"required":["username","email"]}`,
			)),
		fixture("test_elicitation_sep1034_defaults", "",
			asks(
				`{"type":"object","properties":{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}},"required":[]}`,
			)),
		fixture("test_elicitation_sep1330_enums", "",
			asks(
				`{"type":"object","properties":{"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"}]},"legacyEnum":{"type":"string","enum":["opt1","opt2"],"enumNames":["Option One","Option Two"]},"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2"]}},"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"}]}}},"required":[]}`,
			)),
		fixture("json_schema_2020_12_tool",
			`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`,
			respond(mcp.NewTextContent("ok"))),
		fixture(
			"test_x_mcp_header",
			`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},"required":["region"]}`,
			respond(mcp.NewTextContent("ok")),
		),
		fixture("test_logging_tool", "", func(
			ctx context.Context, c *tools.Call, _ map[string]any,
		) (*mcp.CallToolResult, error) {
			c.Notify()
			return mcp.NewToolResultText("logged"), server.ServerFromContext(ctx).
				SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelInfo, "test", "a message"))
		}),
		fixture("test_reconnection", "", respond(mcp.NewTextContent("nothing to wait for"))),
	}
}
