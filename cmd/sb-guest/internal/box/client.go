//go:build linux

package box

import (
	"encoding/json"
	"os"
	"sync"

	"github.com/seed-0724f904/sb/core/providers/docker/wire"
)

// client is the other end of one call. Frames to a client that has left go nowhere.
type client struct {
	from *os.File

	mu   sync.Mutex
	to   *os.File
	gone bool
	buf  []byte
}

// send writes one frame and says whether the client is still there.
func (c *client) send(kind byte, payload []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return false
	}
	c.buf = wire.AppendFrame(c.buf[:0], kind, payload)
	if _, err := c.to.Write(c.buf); err != nil {
		c.gone = true
	}
	return !c.gone
}

// sendJSON writes one frame of JSON.
func (c *client) sendJSON(kind byte, v any) bool {
	payload, err := json.Marshal(v)
	return err == nil && c.send(kind, payload)
}

// reply ends a call.
func (c *client) reply(r wire.Reply) { c.sendJSON(wire.FrameReply, r) }

// fail ends a call that failed.
func (c *client) fail(err error) { c.reply(wire.Reply{Error: wire.Fail(err)}) }

// close makes the client's end see the end; nothing is sent any more.
func (c *client) close() {
	_ = c.from.Close()
	// A write that is stuck ends with the file, so this does not wait for the lock.
	_ = c.to.Close()
}
