// Package compat offers the tools of other systems, with their names and parameters, over those of mcp/tools.
//
// It may import core, mcp/setup and mcp/tools.
//
// Start reading at compat.go, which picks a system; each other file is one system, or several of one kind.
package compat
