package mcp

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"go.uber.org/goleak"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

// bench is a server over the fake provider.
type bench struct {
	*Server
	service  *service.Service
	provider *fake.Provider
}

func newBench(t testing.TB, opts setup.Options) *bench {
	t.Helper()
	provider := fake.New(fake.Options{Also: []core.Capability{core.CapGPU}, GPUs: map[string]int{"T4": 4}})
	svc := service.New(service.Options{Actor: "mcp", Factories: []core.Factory{provider.Factory()}})
	return benchOver(t, provider, svc, opts)
}

func benchOver(t testing.TB, provider *fake.Provider, svc *service.Service, opts setup.Options) *bench {
	t.Helper()
	s, err := New(svc, nil, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if err := svc.Close(); err != nil {
			t.Error(err)
		}
		provider.Shutdown()
	})
	return &bench{Server: s, service: svc, provider: provider}
}

// assistant is a client of a server, with the notifications that it received.
type assistant struct {
	t      testing.TB
	client *client.Client
	hangUp func()

	mu    sync.Mutex
	notes []mcp.JSONRPCNotification
	more  chan struct{}
}

// connect starts a client on two streams, like a program that starts "sb mcp".
func (b *bench) connect(t testing.TB, options ...client.ClientOption) *assistant {
	t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- b.ServeStdio(t.Context(), toServer, fromServer) }()
	a := meet(t, client.NewClient(transport.NewIO(toClient, fromClient, io.NopCloser(strings.NewReader(""))), options...))
	a.hangUp = sync.OnceFunc(func() {
		_ = a.client.Close()
		_ = fromClient.Close()
		go func() { _, _ = io.Copy(io.Discard, toClient) }()
		if err := providertest.Receive(t, served); err != nil {
			t.Errorf("the server ended with %v", err)
		}
		_ = fromServer.Close()
	})
	t.Cleanup(a.hangUp)
	return a
}

// meet starts a client and introduces it.
func meet(t testing.TB, c *client.Client) *assistant {
	t.Helper()
	a := &assistant{t: t, client: c, more: make(chan struct{}, 1)}
	c.OnNotification(func(note mcp.JSONRPCNotification) {
		a.mu.Lock()
		a.notes = append(a.notes, note)
		a.mu.Unlock()
		select {
		case a.more <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	request := mcp.InitializeRequest{}
	request.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	request.Params.ClientInfo = mcp.Implementation{Name: "test", Version: "1"}
	if _, err := c.Initialize(ctx, request); err != nil {
		t.Fatal(err)
	}
	return a
}

// legacy selects the protocol before 2026-07-28, with the handshake and sessions.
func legacy() client.ClientOption {
	return client.WithLegacyProtocolOnly() //nolint:staticcheck // most clients use it
}

// args are a tool's arguments.
type args map[string]any

// try calls a tool and returns its result. The record in _meta of a tool without structured content takes its place.
func (a *assistant) try(ctx context.Context, tool string, arguments args) (*mcp.CallToolResult, error) {
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = tool, arguments
	request.Params.Meta = &mcp.Meta{ProgressToken: tool}
	result, err := a.client.CallTool(ctx, request)
	if err == nil && result.StructuredContent == nil && result.Meta != nil {
		result.StructuredContent = result.Meta.AdditionalFields[tools.RecordKey]
	}
	return result, err
}

// Call calls a tool that has to succeed and returns its structured content.
func (a *assistant) Call(tool string, arguments args) map[string]any {
	a.t.Helper()
	result := a.result(tool, arguments)
	if result.IsError {
		a.t.Fatalf("%s failed: %s", tool, textOf(result))
	}
	structured, ok := result.StructuredContent.(map[string]any)
	if !ok {
		a.t.Fatalf("%s has no structured content: %v", tool, result.StructuredContent)
	}
	return structured
}

func (a *assistant) result(tool string, arguments args) *mcp.CallToolResult {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	result, err := a.try(ctx, tool, arguments)
	if err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	return result
}

// fails calls a tool that has to fail with a kind, and returns the text.
func (a *assistant) fails(kind core.Kind, tool string, arguments args) string {
	a.t.Helper()
	result := a.result(tool, arguments)
	if !result.IsError {
		a.t.Fatalf("%s succeeded: %s", tool, textOf(result))
	}
	encoded, err := json.Marshal(result.Meta)
	if err != nil {
		a.t.Fatal(err)
	}
	var meta map[string]struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(encoded, &meta); err != nil {
		a.t.Fatal(err)
	}
	if got := meta[tools.FailureKey].Kind; got != kind.String() {
		a.t.Errorf("%s failed with kind %q, want %q: %s", tool, got, kind, textOf(result))
	}
	return textOf(result)
}

func textOf(result *mcp.CallToolResult) string {
	var parts []string
	for _, content := range result.Content {
		if text, ok := content.(mcp.TextContent); ok {
			parts = append(parts, text.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// Launch makes a sandbox and returns its id.
func (a *assistant) Launch(arguments args) string {
	a.t.Helper()
	info := a.Call("sandbox_launch", arguments)
	// A short soft deadline may pass first.
	for deadline := time.Now().Add(patience); info["state"] == "creating" && time.Now().Before(deadline); {
		list, _ := a.Call("sandbox_list", args{"sandbox": info["name"]})["sandboxes"].([]any)
		info, _ = list[0].(map[string]any)
	}
	id, _ := info["id"].(string)
	if id == "" {
		a.t.Fatal("the sandbox has no id")
	}
	return id
}

// notification waits for a notification for which fits returns true.
func (a *assistant) notification(what string, fits func(mcp.JSONRPCNotification) bool) mcp.JSONRPCNotification {
	a.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		a.mu.Lock()
		for _, note := range a.notes {
			if fits(note) {
				a.mu.Unlock()
				return note
			}
		}
		a.mu.Unlock()
		select {
		case <-a.more:
		case <-timer.C:
			a.t.Fatalf("no notification: %s", what)
		}
	}
}

func (a *assistant) read(uri string) mcp.ResourceContents {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	request := mcp.ReadResourceRequest{}
	request.Params.URI = uri
	result, err := a.client.ReadResource(ctx, request)
	if err != nil {
		a.t.Fatalf("%s: %v", uri, err)
	}
	return result.Contents[0]
}

func (a *assistant) readText(uri string) string {
	a.t.Helper()
	text, ok := a.read(uri).(mcp.TextResourceContents)
	if !ok {
		a.t.Fatalf("%s is no text", uri)
	}
	return text.Text
}

// eventually polls a condition until it holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
