// Package netstack is a sandbox's way to the network. It is a TCP/IP stack in this process, at the other end of the
// sandbox's network card. It ends every connection of the sandbox, asks the Policy, and opens a socket of this process
// to the destination. So it needs no privilege and no network device.
//
// The sandbox is 10.88.0.2, this side 10.88.0.1, where a name server forwards to
// the host's resolvers. There is no IPv6 and no other protocol than TCP and UDP.
//
// It imports gVisor's network stack and core. Start with Stack in stack.go; named.go has connections to allowed
// domains.
package netstack
