//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-0724f904/sb/mcp/tools"
)

// speaker is the part of a protocol client that the story needs.
type speaker interface {
	// tools returns the number of tools.
	tools(ctx context.Context) (int, error)
	// use calls a tool. failed reports that its result is an error.
	use(ctx context.Context, tool string, arguments args) (structured map[string]any, text string, failed bool, err error)
	resource(ctx context.Context, uri string) (text string, err error)
	prompt(ctx context.Context, name string, arguments map[string]string) (messages int, err error)
	// received returns the progress messages so far.
	received() string
}

func (a *assistant) tools(ctx context.Context) (int, error) {
	listed, err := a.session.ListTools(ctx, nil)
	if err != nil {
		return 0, err
	}
	return len(listed.Tools), nil
}

func (a *assistant) use(
	ctx context.Context, tool string, arguments args,
) (structured map[string]any, text string, failed bool, err error) {
	result, err := a.try(ctx, tool, arguments)
	if err != nil {
		return nil, "", false, err
	}
	structured, _ = result.StructuredContent.(map[string]any)
	return structured, textOf(result), result.IsError, nil
}

func (a *assistant) resource(ctx context.Context, uri string) (string, error) {
	result, err := a.session.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
	if err != nil {
		return "", err
	}
	return result.Contents[0].Text, nil
}

func (a *assistant) prompt(ctx context.Context, name string, arguments map[string]string) (int, error) {
	got, err := a.session.GetPrompt(ctx, &sdk.GetPromptParams{Name: name, Arguments: arguments})
	if err != nil {
		return 0, err
	}
	return len(got.Messages), nil
}

func (a *assistant) received() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.progress, "\n")
}

// gopher is a client of mcp-go.
type gopher struct {
	client *client.Client

	mu       sync.Mutex
	progress []string
}

// introduce connects a client of mcp-go.
func introduce(t testing.TB, over transport.Interface, options ...client.ClientOption) *gopher {
	t.Helper()
	g := &gopher{client: client.NewClient(over, options...)}
	g.client.OnNotification(func(note mcp.JSONRPCNotification) {
		if message, ok := note.Params.AdditionalFields["message"].(string); ok && note.Method == "notifications/progress" {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.progress = append(g.progress, message)
		}
	})
	if err := g.client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.client.Close() })
	request := mcp.InitializeRequest{}
	request.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	request.Params.ClientInfo = mcp.Implementation{Name: "story", Version: "1"}
	if _, err := g.client.Initialize(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *gopher) tools(ctx context.Context) (int, error) {
	listed, err := g.client.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return 0, err
	}
	return len(listed.Tools), nil
}

func (g *gopher) use(
	ctx context.Context, tool string, arguments args,
) (structured map[string]any, text string, failed bool, err error) {
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments, request.Params.Meta = tool, arguments, &mcp.Meta{ProgressToken: tool}
	result, err := g.client.CallTool(ctx, request)
	if err != nil {
		return nil, "", false, err
	}
	for _, content := range result.Content {
		if part, ok := content.(mcp.TextContent); ok {
			text += part.Text
		}
	}
	if structured, _ = result.StructuredContent.(map[string]any); structured == nil && result.Meta != nil {
		structured, _ = result.Meta.AdditionalFields[tools.RecordKey].(map[string]any)
	}
	return structured, text, result.IsError, nil
}

func (g *gopher) resource(ctx context.Context, uri string) (string, error) {
	request := mcp.ReadResourceRequest{}
	request.Params.URI = uri
	result, err := g.client.ReadResource(ctx, request)
	if err != nil {
		return "", err
	}
	text, ok := result.Contents[0].(mcp.TextResourceContents)
	if !ok {
		return "", errors.New("not text")
	}
	return text.Text, nil
}

func (g *gopher) prompt(ctx context.Context, name string, arguments map[string]string) (int, error) {
	request := mcp.GetPromptRequest{}
	request.Params.Name, request.Params.Arguments = name, arguments
	got, err := g.client.GetPrompt(ctx, request)
	if err != nil {
		return 0, err
	}
	return len(got.Messages), nil
}

func (g *gopher) received() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.progress, "\n")
}

// The same story with the clients of both libraries over all three transports, with real sandboxes.
func TestClients(t *testing.T) {
	t.Parallel()
	legacy := client.WithLegacyProtocolOnly() //nolint:staticcheck // most clients use it
	for name, meet := range map[string]func(*home) speaker{
		"official SDK/stdio": func(h *home) speaker {
			a, _ := h.stdio()
			return a
		},
		"official SDK/streamable": func(h *home) speaker {
			url, _ := h.listen("--no-auth", "--transport", "streamable-http")
			return connect(h.t, &sdk.StreamableClientTransport{Endpoint: url + "/mcp"})
		},
		"official SDK/sse": func(h *home) speaker {
			url, _ := h.listen("--no-auth", "--transport", "sse")
			return connect(h.t, &sdk.SSEClientTransport{Endpoint: url + "/sse"})
		},
		"mcp-go/stdio": func(h *home) speaker {
			s := h.serve()
			return introduce(h.t, transport.NewIO(s.out, s.in, io.NopCloser(strings.NewReader(""))))
		},
		"mcp-go/stdio of 2025-11-25": func(h *home) speaker {
			s := h.serve()
			return introduce(h.t, transport.NewIO(s.out, s.in, io.NopCloser(strings.NewReader(""))), legacy)
		},
		"mcp-go/streamable": func(h *home) speaker {
			url, _ := h.listen("--no-auth", "--transport", "http")
			over, err := transport.NewStreamableHTTP(url + "/mcp")
			if err != nil {
				h.t.Fatal(err)
			}
			return introduce(h.t, over)
		},
		"mcp-go/sse": func(h *home) speaker {
			url, _ := h.listen("--no-auth", "--transport", "sse")
			over, err := transport.NewSSE(url + "/sse")
			if err != nil {
				h.t.Fatal(err)
			}
			return introduce(h.t, over, legacy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			converse(t, meet(newHome(t)))
		})
	}
}

// converse is the story.
func converse(t *testing.T, s speaker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	call := func(tool string, arguments args) map[string]any {
		t.Helper()
		structured, text, failed, err := s.use(ctx, tool, arguments)
		if err != nil || failed || structured == nil {
			t.Fatalf("%s: %s, %v", tool, text, err)
		}
		return structured
	}
	if count, err := s.tools(ctx); err != nil || count < 14 {
		t.Fatalf("%d tools, %v", count, err)
	}
	sb := call("sandbox_launch", args{"name": "dev"})["id"].(string)
	if got := call("exec", args{
		"sandbox": "dev", "command": "echo out; echo err >&2; exit 3",
	}); got["stdout"] != "out\n" || got["stderr"] != "err\n" || got["exit_code"] != 3.0 {
		t.Errorf("exec: %v", got)
	}
	if got := call("run_code", args{"sandbox": sb, "language": "python", "code": "print(6*7)"}); got["stdout"] != "42\n" {
		t.Errorf("python: %v", got)
	}
	call("file_write", args{"sandbox": sb, "path": "/tmp/new/f.txt", "content": "text"})
	if text, err := s.resource(ctx, "sandbox://"+sb+"/files/tmp/new/f.txt"); err != nil || text != "text" {
		t.Errorf("resource: %q, %v", text, err)
	}
	got := call("exec", args{"sandbox": sb, "command": "echo begun; sleep 3; echo done", "wait_seconds": 1})
	if got["running"] != true || got["stdout"] != "begun\n" {
		t.Errorf("at the soft deadline: %v", got)
	}
	if got = call("exec_wait", args{
		"sandbox": sb, "exec_id": got["exec_id"], "cursor": got["cursor"],
	}); got["stdout"] != "done\n" || got["exit_code"] != 0.0 {
		t.Errorf("waited: %v", got)
	}
	if received := s.received(); !strings.Contains(received, "begun") {
		t.Errorf("no progress: %q", received)
	}
	if messages, err := s.prompt(ctx, "run_untrusted_code", map[string]string{"source": "x.py"}); err != nil ||
		messages != 1 {
		t.Errorf("prompt: %d messages, %v", messages, err)
	}
	_, text, failed, err := s.use(ctx, "exec", args{"sandbox": "absent", "command": "true"})
	if err != nil || !failed || !strings.HasPrefix(text, "error (not_found): ") {
		t.Errorf("a failure: %q, %v", text, err)
	}
	call("sandbox_terminate", args{"sandbox": sb})
}
