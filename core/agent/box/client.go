//go:build linux

package box

import (
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// client is the other end of one call. Frames to a client that has left are dropped.
type client struct {
	from *os.File
	// linger bounds outlast.
	linger time.Duration

	// controlMu is held while a control is carried out and answered.
	controlMu sync.Mutex

	mu   sync.Mutex
	to   *os.File
	gone bool
	buf  []byte
}

// send writes one frame and reports whether the client is still connected.
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

// control carries out a control and answers it.
func (c *client) control(do func() error) {
	c.controlMu.Lock()
	defer c.controlMu.Unlock()
	c.sendJSON(wire.FrameControlReply, wire.Reply{Error: guest.Fail(do())})
}

// finish ends the call of a command that has ended. If a control of this client ended it, the control is answered
// first.
func (c *client) finish(r wire.Reply) {
	c.controlMu.Lock()
	defer c.controlMu.Unlock()
	c.reply(r)
}

// reply ends a call.
func (c *client) reply(r wire.Reply) { c.sendJSON(wire.FrameReply, r) }

// fail ends a call that failed.
func (c *client) fail(err error) { c.reply(wire.Reply{Error: guest.Fail(err)}) }

// outlast reads the rest of the input of a client that has its answer, until the client leaves or the linger time ends.
// The reader of the input closes left.
func (c *client) outlast(left <-chan struct{}) {
	_ = c.from.SetReadDeadline(time.Now().Add(c.linger))
	<-left
}

// output is one output of a command, as frames.
type output struct {
	to   *client
	kind byte
}

// Write implements io.Writer. The command continues after its client has left.
func (o output) Write(data []byte) (int, error) {
	if !o.to.send(o.kind, data) {
		return 0, os.ErrClosed
	}
	return len(data), nil
}

// Close implements io.Closer. The call's reply is the end.
func (o output) Close() error { return nil }

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// close closes both directions; the client sees the end of its stream. Later sends fail.
func (c *client) close() {
	_ = c.from.Close()
	// A write that is stuck ends with the file, so this does not wait for the lock.
	_ = c.to.Close()
}
