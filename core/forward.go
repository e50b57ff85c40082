package core

import (
	"context"
	"net"
)

// PortForwarder connects to ports inside sandboxes, published or not. Its capability is CapPortForward.
type PortForwarder interface {
	// DialPort connects to a TCP port on the sandbox's own loopback. KindUnavailable: no process listens on it.
	// KindConflict: the sandbox does not run. ctx bounds only the connection attempt. A connection that is a net.TCPConn
	// or has CloseWrite supports half-close.
	DialPort(ctx context.Context, id string, port int) (net.Conn, error)
}
