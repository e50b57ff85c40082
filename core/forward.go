package core

import (
	"context"
	"net"
)

// PortForwarder connects to ports inside sandboxes, published or not. Its capability is CapPortForward.
type PortForwarder interface {
	// DialPort connects to a TCP port on the sandbox's own loopback. KindUnavailable: nothing listens there;
	// KindConflict: the sandbox does not run. ctx bounds the connecting only. A connection that is a net.TCPConn or
	// has CloseWrite can be closed for one direction.
	DialPort(ctx context.Context, id string, port int) (net.Conn, error)
}
