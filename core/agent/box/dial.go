//go:build linux

package box

import (
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/port"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// dial connects the caller with a port on the sandbox's loopback. After the reply the call carries the connection's
// bytes.
func (b *Box) dial(r wire.Request, c *client) error {
	if err := b.acquire(); err != nil {
		return err
	}
	defer b.release()
	conn, err := port.Connect(r.Port)
	if err != nil {
		return core.Errorf(core.KindUnavailable, "port", "", "nothing listens on port %d: %w", r.Port, err)
	}
	defer func() { _ = conn.Close() }()
	c.reply(wire.Reply{})
	port.Carry(conn, c.from, c.to)
	return nil
}
