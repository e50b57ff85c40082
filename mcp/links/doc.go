// Package links makes links to single files of sandboxes, and answers them over HTTP.
//
// It may import core, core/service, mcp/auth, mcp/problem and mcp/reply.
//
// Start reading at links.go: a Grant describes the permission of a link, and its signature is the only proof of it.
package links
