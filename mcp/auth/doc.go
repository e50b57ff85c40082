// Package auth finds out who makes a request: API keys, tokens of an issuer, rates, allowed hosts and origins.
//
// It may import core, mcp/keys and mcp/setup.
//
// Start reading at identity.go: an Identity is what the rest of the server knows of a caller.
package auth
