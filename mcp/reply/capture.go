package reply

import (
	"bytes"
	"sync"

	"github.com/seed-0724f904/sb/core/redact"
)

// captureSide is the number of bytes that a capture keeps of each end of a stream.
const captureSide = 512 << 10

// Capture is a writer that keeps the beginning and the end of its input, without the values of secrets. It never fails
// and never blocks its writer for long.
type Capture struct {
	mu    sync.Mutex
	clean *redact.Stream // nil cleans nothing
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // index of the oldest byte in tail
	total int64
	fresh []byte // the newest, for progress
}

// NewCapture makes a capture; clean may be nil.
func NewCapture(clean *redact.Stream) *Capture { return &Capture{clean: clean} }

// freshLimit bounds the output in a progress message, in bytes.
const freshLimit = 2 << 10

// Write implements io.Writer.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	if c.clean != nil {
		p = c.clean.Next(p)
	}
	c.keep(p)
	return n, nil
}

// Settle adds the bytes that were held back as a possible beginning of a secret. No Write may follow.
func (c *Capture) Settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clean != nil {
		c.keep(c.clean.Rest())
	}
}

func (c *Capture) keep(p []byte) {
	n := len(p)
	c.total += int64(n)
	c.fresh = append(c.fresh, p[max(0, n-freshLimit):]...)
	c.fresh = c.fresh[max(0, len(c.fresh)-freshLimit):]
	taken := min(n, captureSide-len(c.head))
	c.head = append(c.head, p[:taken]...)
	p = p[taken:]
	if len(p) >= captureSide {
		c.tail = append(c.tail[:0], p[len(p)-captureSide:]...)
		c.next = 0
		return
	}
	taken = min(len(p), captureSide-len(c.tail))
	c.tail = append(c.tail, p[:taken]...)
	for p = p[taken:]; len(p) > 0; {
		copied := copy(c.tail[c.next:], p)
		p, c.next = p[copied:], (c.next+copied)%captureSide
	}
}

// Newest returns the output since the previous call, or the end of it.
func (c *Capture) Newest() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := c.fresh
	c.fresh = nil
	return fresh
}

// Snapshot returns the beginning, the end and the number of all bytes. If no bytes are missing between them, head has
// all of them and end is nil.
func (c *Capture) Snapshot() (head, end []byte, total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end = append(bytes.Clone(c.tail[c.next:]), c.tail[:c.next]...)
	head = bytes.Clone(c.head)
	if int64(len(head)+len(end)) == c.total {
		return append(head, end...), nil, c.total
	}
	return head, end, c.total
}
