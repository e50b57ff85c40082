//go:build linux

package netstack

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxDenials bounds the recorded refused flows.
const maxDenials = 64

// Denial is a flow that the policy refused Count times.
type Denial struct {
	// Time is the time of the latest refusal.
	Time   time.Time
	Flow   Flow
	Reason string
	Count  int
}

// Stats are the traffic counters of a stack. Bytes are those of the content, without headers.
type Stats struct {
	Received, Sent int64 // from the sandbox's view
	Connections    int64 // made, in either direction
	Denied         int64
}

type counters struct {
	received, sent, connections, denied atomic.Int64

	mu      sync.Mutex
	denials []Denial // the latest last
}

// deny counts a refusal. It drops the oldest refused flows if there are more than maxDenials.
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

// Denials returns the recorded refused flows, the latest last.
func (s *Stack) Denials() []Denial {
	c := &s.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.denials)
}
