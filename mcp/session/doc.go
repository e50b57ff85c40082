// Package session knows the clients of a server and keeps the sandboxes alive that they use.
//
// It may import core, core/service and mcp/auth.
//
// Start reading at Table: Of finds the session of a request, RenewAll renews leases, settle ends what a client left.
package session
