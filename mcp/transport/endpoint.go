package transport

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/seed-0724f904/sb/mcp/links"
	"github.com/seed-0724f904/sb/mcp/session"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// Endpoint is the transports' view of a server. The caller fills the exported fields before the first client connects.
type Endpoint struct {
	Protocol *server.MCPServer
	Options  setup.HTTP
	// ServeWeb announces Transport, and serves both HTTP transports.
	Transport setup.Transport
	Sessions  *session.Table
	Files     links.Files
	// API, if set, serves /api/v1/ beside the protocol. Open are its paths that need no key.
	API  API
	Open []string
	// CheckSelection returns an error if a selection has an unknown name.
	CheckSelection func(setup.Selection) error
	// RunningCommands counts the commands whose output the server holds, for the metrics.
	RunningCommands func() int
	// Lease is the lifetime of an HTTP session without requests.
	Lease time.Duration
	Log   *slog.Logger
	// Context ends when the server does. Go starts a function in the background; the server waits for it.
	Context context.Context //nolint:containedctx // calls outlive their request
	Go      func(func())

	Metrics metrics
}

// API serves routes of plain HTTP.
type API interface {
	http.Handler
	// Shutdown ends the responses that last as long as their client.
	Shutdown()
}
