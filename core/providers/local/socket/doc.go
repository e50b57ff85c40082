// Package socket carries the protocol of core/agent/wire over a unix socket, with gRPC and JSON, and starts supervisors.
// A connection begins with a handshake of versions, which carries the caller's descriptors; bulk data flows through those.
// It imports core, core/agent/{guest,wire} and grpc. Start with Dial and Server.
package socket
