// Package tools has every tool of sb's own: its schema, its text for a model, and what it does with the service.
//
// It may import core, core/service, core/transfer, and of mcp: auth, links, reply, session and setup. No transport.
//
// Start reading at tool.go, which makes a tool of a function. A Call is one call and its caller. A Host is what calls
// share. Each other file has one toolset, or one thing that toolsets need.
package tools
