package mcp

import (
	"bytes"
	"sync"
	"unicode/utf8"
)

// captureSide is how much of the beginning and of the end of a stream a capture keeps.
const captureSide = 512 << 10

// capture keeps the beginning and the end of what is written to it, however much that is. It never fails
// and never blocks its writer for long.
type capture struct {
	mu    sync.Mutex
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where in tail the oldest byte stands
	total int64
	fresh []byte // the newest, for progress
}

// freshLimit is how much a progress message may show.
const freshLimit = 2 << 10

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
		return n, nil
	}
	taken = min(len(p), captureSide-len(c.tail))
	c.tail = append(c.tail, p[:taken]...)
	for p = p[taken:]; len(p) > 0; {
		copied := copy(c.tail[c.next:], p)
		p, c.next = p[copied:], (c.next+copied)%captureSide
	}
	return n, nil
}

// newest returns what was written since it was last called, or the end of it.
func (c *capture) newest() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := c.fresh
	c.fresh = nil
	return fresh
}

// snapshot returns the beginning, the end, and the count of all bytes. When nothing is missing between them, end is nil.
func (c *capture) snapshot() (head, end []byte, total int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end = append(bytes.Clone(c.tail[c.next:]), c.tail[:c.next]...)
	head = bytes.Clone(c.head)
	if int64(len(head)+len(end)) == c.total {
		return append(head, end...), nil, c.total
	}
	return head, end, c.total
}

// isText says whether bytes are text for a model: UTF-8 without NUL, where a character may be cut at either end.
func isText(data []byte) bool {
	return !bytes.ContainsRune(data, 0) && utf8.Valid(trimPartial(data))
}

// trimPartial cuts what is left of a character at the beginning and at the end.
func trimPartial(data []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && len(data) > 0 && !utf8.RuneStart(data[0]); i++ {
		data = data[1:]
	}
	for i := 1; i <= min(utf8.UTFMax-1, len(data)); i++ {
		if at := len(data) - i; utf8.RuneStart(data[at]) {
			if !utf8.FullRune(data[at:]) {
				return data[:at]
			}
			break
		}
	}
	return data
}
