// Package mcp serves the core as tools, resources and prompts of the Model Context Protocol.
//
// A tool is a value (Tool) made by define, with schemas taken from its Go types; a toolset is a list of
// them. Server ties them to a core.Service and to mcp-go, over stdio (ServeStdio) or HTTP (Handler).
package mcp
