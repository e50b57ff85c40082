// Package mcp serves the core as tools, resources and prompts of the Model Context Protocol.
//
// It connects its packages: tools and compat (the tools of assistants), session (the clients), transport (stdio and
// HTTP), auth, links and reply. It may import them, core, core/service and mcp-go; nothing here imports a provider.
//
// Start reading at server.go: New makes the server, and handler runs one call.
package mcp
