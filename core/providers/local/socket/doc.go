// Package socket carries the protocol of core/agent/wire and a caller's descriptors over a unix socket, with gRPC.
// It imports core, core/agent/{guest,wire} and grpc.
// Start with Dial and Server. The messages for the start of a supervisor are in messages.go.
package socket
