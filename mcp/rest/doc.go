// Package rest serves the operations over plain HTTP, below /api/v1/, for programs that do not speak the protocol of
// mcp. An operation is a tool with a method and a path: it has the tool's schemas, rights and limits. The routes and
// messages of code sessions are those of python-sandbox-mcp, with more fields.
//
// It may import core, core/code, core/redact, mcp/auth, mcp/links, mcp/problem, mcp/setup and mcp/tools. Package
// transport authenticates the requests and bounds their bodies. Start with operations.go.
package rest
