// Package rest serves code sessions over plain HTTP, below /api/v1/, for programs that do not speak the protocol of
// mcp. The routes and messages are those of python-sandbox-mcp, with more fields.
//
// It may import core, core/code, mcp/auth and mcp/tools. Package transport authenticates the requests and bounds their
// bodies. Start with New.
package rest
