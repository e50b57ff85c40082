// Package tools has sb's tools. A tool has a schema, a text for a model, and an operation of the service.
//
// It may import core, core/service, core/transfer, and of mcp: auth, links, reply, session and setup. No transport.
//
// Start reading at tool.go, which makes a tool of a function. A Call is one call with its caller. A Host is the state
// that calls share. Each other file has one toolset, or one helper of toolsets. There are more than 30 of them, because
// every tool uses the same Call and Host.
package tools
