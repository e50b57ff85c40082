// Package session tracks the clients of a server and keeps their sandboxes alive.
//
// It may import core, core/service and mcp/auth.
//
// Start reading at Table: Of finds the session of a request, RenewAll renews leases, Settle handles the sandboxes of a
// client that left.
package session
