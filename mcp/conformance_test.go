package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// scenarios are all server scenarios of the suite. According to docs/mcp.md, all are applicable.
func scenarios() []string {
	return []string{
		"server-initialize", "logging-set-level", "ping", "completion-complete", "tools-list", "tools-call-simple-text",
		"tools-call-image", "tools-call-audio",
		"tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-with-logging", "tools-call-error",
		"tools-call-with-progress", "tools-call-sampling",
		"tools-call-elicitation", "json-schema-2020-12", "elicitation-sep1034-defaults", "server-sse-polling",
		"server-sse-multiple-streams", "elicitation-sep1330-enums",
		"resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read", "resources-subscribe",
		"resources-unsubscribe",
		"prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource",
		"prompts-get-with-image", "dns-rebinding-protection",
	}
}

// Runs the public conformance suite against the product's adapter and HTTP stack, with the tools, resources and prompts
// that the suite needs.
func TestConformance(t *testing.T) {
	dir := programtest.NodeModules(t)
	program := filepath.Join(dir, "@modelcontextprotocol", "conformance", "dist", "index.js")
	out, err := programtest.Node(t.Context(), dir, program, "list", "--server").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for line := range strings.Lines(string(out)) {
		name, isScenario := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !isScenario {
			continue
		}
		known++
		if name, _, _ = strings.Cut(name, " "); !strings.Contains(" "+strings.Join(scenarios(), " ")+" ", " "+name+" ") {
			t.Errorf("the suite has a scenario %s that is not run", name)
		}
	}
	if known != len(scenarios()) {
		t.Errorf("the suite has %d scenarios, not %d", known, len(scenarios()))
	}
	s := newSite(t, setup.Options{HTTP: setup.HTTP{Rate: -1}})
	addFixtures(s.Server)
	for _, scenario := range scenarios() {
		t.Run(scenario, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := programtest.Node(ctx, dir, program, "server", "--url", s.web.URL()+"/mcp", "--scenario", scenario)
			cmd.Dir = t.TempDir()
			if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("FAILURE")) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// The smallest picture and sound.
const (
	fixturePicture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	fixtureSound   = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
)

func addFixtures(s *Server) {
	s.mcp.EnableSampling()
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
			`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"}},"additionalProperties":false}`,
			respond(mcp.NewTextContent("ok"))),
		fixture("test_reconnection", "", respond(mcp.NewTextContent("nothing to wait for"))),
	}
}

// The inspector's command line lists and calls tools. Each call starts Node, so TestTypeScriptClient calls the others.
func TestInspector(t *testing.T) {
	dir := programtest.NodeModules(t)
	b := newSite(t, setup.Options{Toolsets: []string{setup.All}, HTTP: setup.HTTP{Rate: -1}})
	inspect := func(t *testing.T, arguments ...string) map[string]any {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		program := filepath.Join(dir, "@modelcontextprotocol", "inspector", "cli", "build", "cli.js")
		var stderr bytes.Buffer
		cmd := programtest.Node(ctx, dir, append([]string{program, "--cli", b.web.URL() +
			"/mcp", "--transport", "http"}, arguments...)...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s%s", err, out, stderr.Bytes())
		}
		var got map[string]any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return got
	}
	listed, _ := inspect(t, "--method", "tools/list")["tools"].([]any)
	if len(listed) != len(tools.Catalogue()) {
		t.Errorf("%d tools are listed, not %d", len(listed), len(tools.Catalogue()))
	}
	sb := b.visit(t, "").Launch(args{"persist": true})
	call := []string{"--method", "tools/call", "--tool-arg", "sandbox=" + sb, "--tool-name"}
	for _, test := range [][]string{{"exec", "--tool-arg", "command=true"}, {"sandbox_terminate"}} {
		got := inspect(t, append(call, test...)...)
		if content, _ := got["content"].([]any); len(content) == 0 || got["isError"] == true {
			t.Errorf("%v: %v", test, got)
		}
	}
}

// The client of the TypeScript SDK calls every tool of the product. It validates the results against the schemas.
func TestTypeScriptClient(t *testing.T) {
	dir := programtest.NodeModules(t)
	b := newSite(t, setup.Options{Toolsets: []string{setup.All}, HTTP: setup.HTTP{Rate: -1}})
	a := b.visit(t, "")
	sb := a.Launch(args{"persist": true})
	a.Call("exec", args{"sandbox": sb, "command": "sleep 600", "background": true})
	given := args{
		"sandbox": sb, "command": "true", "exec_id": "1", "wait_seconds": 0, "language": "bash", "code": "true",
		"path": "/tmp/f", "content": "text", "packages": []string{"x"}, "package": "x", "timeout_seconds": 600,
		"local_path": "/tmp/x", "name": "made-here", "network": "none", "to": "fake",
		"edits": []args{{"old": "text", "new": "more text"}},
	}
	type toolCall struct {
		Name      string `json:"name"`
		Arguments args   `json:"arguments"`
	}
	var calls []toolCall
	for _, tool := range tools.Catalogue() {
		if tool.Name == "sandbox_terminate" || tool.Name == "sandbox_launch" {
			continue // TestInspector calls the one, and Launch the other
		}
		call := toolCall{tool.Name, args{}}
		for name, value := range given {
			if _, known := tool.In.Root.Properties[name]; known {
				call.Arguments[name] = value
			}
		}
		calls = append(calls, call)
	}
	input, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := programtest.Node(ctx, dir, filepath.Join("testdata", "client.mjs"), dir, b.web.URL()+"/mcp")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr.Bytes())
	}
	results := json.NewDecoder(bytes.NewReader(out))
	for _, call := range calls {
		var got struct {
			Thrown  string         `json:"thrown"`
			Content []any          `json:"content"`
			Meta    map[string]any `json:"_meta"`
		}
		if err := results.Decode(&got); err != nil {
			t.Fatalf("%s: %v", call.Name, err)
		}
		if len(got.Content) == 0 || got.Thrown != "" {
			t.Errorf("%s: no content: %s", call.Name, got.Thrown)
		}
		problem, _ := got.Meta[tools.FailureKey].(map[string]any)
		if problem["kind"] == "usage" || problem["kind"] == "internal" {
			t.Errorf("%s failed: %v", call.Name, problem)
		}
	}
}
