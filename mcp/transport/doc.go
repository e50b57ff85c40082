// Package transport carries messages between clients and mcp-go: over stdio, streamable HTTP and SSE.
//
// It may import core, and of mcp: auth, links, session and setup. It is independent of the tools.
//
// Start reading at endpoint.go, the transports' view of the server, then stdio.go or http.go. peer.go is a client of
// both.
package transport
