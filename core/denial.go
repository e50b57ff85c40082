package core

import (
	"context"
	"time"
)

// Denial is what a sandbox wanted to connect to and its network policy refused. The same attempt made
// again is one Denial with a higher count.
type Denial struct {
	// Time is when it was refused last.
	Time time.Time `json:"time"`
	// Protocol is "tcp", "udp", or "dns" for a name that was not resolved.
	Protocol string `json:"protocol"`
	// Address is the address without a port; "" for dns.
	Address string `json:"address,omitempty"`
	Port    int    `json:"port,omitempty"`
	// Name is the host's, where the sandbox said one.
	Name string `json:"name,omitempty"`
	// Why is the policy's reason, for a person.
	Why   string `json:"why,omitempty"`
	Count int    `json:"count"`
}

// DenialReader remembers what the network policy refused.
type DenialReader interface {
	// Denials returns what is remembered, the latest first. How much that is is bounded. It is kept as
	// long as the sandbox runs.
	Denials(ctx context.Context, id string) ([]Denial, error)
}
