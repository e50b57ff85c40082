// Package mcp serves the core as tools, resources and prompts of the Model Context Protocol.
//
// It ties its rooms together: tools and compat (what assistants call), session (who calls), transport (stdio and
// HTTP), auth, links and reply. It may import them, core, core/service and mcp-go; nothing here imports a provider.
//
// Start reading at server.go: New makes the server, and handler is the way of one call.
package mcp
