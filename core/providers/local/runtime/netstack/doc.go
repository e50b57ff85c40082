// Package netstack connects a sandbox to the network. It is a TCP/IP stack in this process, at the other end of the
// sandbox's network card. It terminates every connection of the sandbox, consults the Policy, and opens a socket of
// this process to the destination. So it needs no privilege and no network device.
//
// The sandbox is 10.88.0.2. This side is 10.88.0.1, where a name server forwards to the host's resolvers. TCP and UDP
// over IPv4 are the only protocols.
//
// It imports gVisor's network stack and core. Start with Stack in stack.go; named.go has connections to allowed
// domains.
package netstack
