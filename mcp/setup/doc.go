// Package setup holds the options of an MCP server. It links nothing of the protocol, so sb reads the flags at no cost.
//
// It imports core and core/service. Start with Options.
package setup
