// Package assistants holds the commands for assistants: the MCP server, its installation and its API keys.
//
// It imports commands/internal/cli and core/service, and no other group. Each file is named after its noun. Start with
// mcp.go: NewX makes the command and runX does the work.
package assistants
