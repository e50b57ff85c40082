// Package auth identifies the caller of each request. It checks API keys, tokens, rates, hosts and origins.
//
// It may import core, mcp/keys and mcp/setup.
//
// Start reading at identity.go: an Identity describes a caller to the rest of the server.
package auth
