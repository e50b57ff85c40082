package docker

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

var _ core.PortForwarder = (*Provider)(nil)

// DialPort implements core.PortForwarder: the sandbox's first process connects, and the call carries the bytes.
func (p *Provider) DialPort(ctx context.Context, id string, port int) (net.Conn, error) {
	c, err := p.dial(ctx, id, "port", wire.Request{Verb: wire.VerbDial, Port: port})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, c.close)
	_, err = c.reply(nil)
	if !stop() {
		err = core.Wrap("docker.port", id, ctx.Err())
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return &portConn{call: c, port: port}, nil
}

// portConn is a connection to a port of a sandbox.
type portConn struct {
	*call
	port int
}

// portAddr is the address of a port of a sandbox.
type portAddr struct {
	id   string
	port int
}

// Network implements net.Addr.
func (portAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a portAddr) String() string { return net.JoinHostPort(a.id, strconv.Itoa(a.port)) }

// LocalAddr implements net.Conn.
func (c *portConn) LocalAddr() net.Addr { return portAddr{id: Name} }

// RemoteAddr implements net.Conn.
func (c *portConn) RemoteAddr() net.Addr { return portAddr{c.id, c.port} }

// SetDeadline implements net.Conn.
func (c *portConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}
