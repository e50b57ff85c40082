package core

import (
	"context"
	"time"
)

// Denial is a connection or name lookup that a sandbox attempted and its network policy refused. Repeated attempts are
// one Denial with a higher count.
type Denial struct {
	// Time is when it was last refused.
	Time time.Time `json:"time"`
	// Protocol is "tcp", "udp", or "dns" for a refused lookup.
	Protocol string `json:"protocol"`
	// Address is the address without a port; "" for dns.
	Address string `json:"address,omitempty"`
	Port    int    `json:"port,omitempty"`
	// Name is the host's name, where the sandbox used one.
	Name string `json:"name,omitempty"`
	// Why is the policy's reason as text.
	Why   string `json:"why,omitempty"`
	Count int    `json:"count"`
}

// DenialReader returns the refusals of the network policy.
type DenialReader interface {
	// Denials returns the recorded refusals, the latest first. Their number is bounded. They are kept while the sandbox
	// runs.
	Denials(ctx context.Context, id string) ([]Denial, error)
}
