package reply

import (
	"bytes"
	"sync"

	"github.com/seed-0724f904/sb/core/redact"
)

// captureSide is how much of the beginning and of the end of a stream a capture keeps.
const captureSide = 512 << 10

// Capture keeps the beginning and the end of what is written to it, however much that is, without the values of
// secrets. It never fails and never blocks its writer for long.
type Capture struct {
	mu    sync.Mutex
	clean *redact.Stream // nil cleans nothing
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where in tail the oldest byte stands
	total int64
	fresh []byte // the newest, for progress
}

// NewCapture makes a capture; clean may be nil.
func NewCapture(clean *redact.Stream) *Capture { return &Capture{clean: clean} }

// freshLimit is how much a progress message may show.
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

// Settle keeps what was held back because it could have been the beginning of a secret: no more will come.
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

// Newest returns what was written since it was last called, or the end of it.
func (c *Capture) Newest() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := c.fresh
	c.fresh = nil
	return fresh
}

// Snapshot returns the beginning, the end, and the count of all bytes. When nothing is missing between them, end is
// nil.
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
