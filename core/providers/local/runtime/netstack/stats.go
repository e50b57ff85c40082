//go:build linux

package netstack

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxDenials is how many refused flows are remembered.
const maxDenials = 64

// Denial is a flow that the policy refused, once or several times.
type Denial struct {
	// Time is that of the last time.
	Time   time.Time
	Flow   Flow
	Reason string
	Count  int
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
	denials []Denial // the latest last
}

// deny counts a refusal. Of more than maxDenials flows those that were refused longest ago are forgotten.
func (c *counters) deny(flow Flow, reason string) {
	c.denied.Add(1)
	d := Denial{Time: time.Now(), Flow: flow, Reason: reason, Count: 1}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.denials, func(other Denial) bool { return other.Flow == flow })
	if at < 0 && len(c.denials) == maxDenials {
		at = 0
	} else if at >= 0 {
		d.Count += c.denials[at].Count
	}
	if at >= 0 {
		c.denials = slices.Delete(c.denials, at, at+1)
	}
	c.denials = append(c.denials, d)
}

// Stats returns the counters.
func (s *Stack) Stats() Stats {
	c := &s.counters
	return Stats{
		Received: c.received.Load(), Sent: c.sent.Load(), Connections: c.connections.Load(), Denied: c.denied.Load(),
	}
}

// Denials returns the refused flows that are remembered, the latest last.
func (s *Stack) Denials() []Denial {
	c := &s.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.denials)
}
