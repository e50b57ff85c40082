//go:build linux

package netstack

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxDenials is how many refusals are remembered.
const maxDenials = 64

// Denial is a flow that the policy refused.
type Denial struct {
	Time   time.Time
	Flow   Flow
	Reason string
}

// Stats is what went through a stack so far. Bytes are of content, without headers.
type Stats struct {
	Received, Sent int64 // as the sandbox sees it
	Connections    int64 // made, in either direction
	Denied         int64
}

type counters struct {
	received, sent, connections, denied atomic.Int64

	mu      sync.Mutex
	denials []Denial // a ring once it is full
	next    int
}

func (c *counters) deny(flow Flow, reason string) {
	c.denied.Add(1)
	d := Denial{Time: time.Now(), Flow: flow, Reason: reason}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.denials) < maxDenials {
		c.denials = append(c.denials, d)
		return
	}
	c.denials[c.next] = d
	c.next = (c.next + 1) % maxDenials
}

// Stats returns the counters.
func (s *Stack) Stats() Stats {
	c := &s.counters
	return Stats{Received: c.received.Load(), Sent: c.sent.Load(), Connections: c.connections.Load(), Denied: c.denied.Load()}
}

// Denials returns the last refusals, oldest first.
func (s *Stack) Denials() []Denial {
	c := &s.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(append([]Denial(nil), c.denials[c.next:]...), c.denials[:c.next]...)
}
