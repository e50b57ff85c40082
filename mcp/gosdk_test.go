package mcp

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// The client of the official Go SDK answers the request for its roots, so push reads a file below one of them.
func TestRootsOfTheGoSDK(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f.txt"), "text")
	b := newBench(t, setup.Options{UseRoots: true})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- b.ServeStdio(ctx, toServer, fromServer) }()
	client := sdk.NewClient(&sdk.Implementation{Name: "go", Version: "1"}, nil)
	client.AddRoots(&sdk.Root{URI: "file://" + dir, Name: "root"}) //nolint:staticcheck // clients still have roots
	session, err := client.Connect(ctx, &sdk.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(tool string, arguments args) string {
		t.Helper()
		result, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := result.Content[0].(*sdk.TextContent)
		if result.IsError || text == nil {
			t.Fatalf("%s: %+v", tool, text)
		}
		return text.Text
	}
	call("sandbox_launch", args{"name": "dev"})
	call("push", args{"sandbox": "dev", "local_path": filepath.Join(dir, "f.txt"), "path": "/f.txt"})
	if got := call("file_read", args{"sandbox": "dev", "path": "/f.txt"}); got != "text" {
		t.Errorf("pushed: %q", got)
	}
	_ = session.Close()
	_ = fromClient.Close()
	if err := providertest.Receive(t, served); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	_ = fromServer.Close()
}
