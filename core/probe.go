package core

import (
	"context"
	"time"
)

// Probe is a check whether a sandbox is ready for its users. Exactly one of TCP and Exec is set.
type Probe struct {
	// TCP is a port inside that accepts connections, 1 to 65535.
	TCP int `json:"tcp,omitempty"`
	// Exec is a command inside that exits with code 0 when the sandbox is ready.
	Exec []string `json:"exec,omitempty"`
	// Interval is the time between two attempts; 0 means one second.
	Interval Duration `json:"interval,omitempty"`
}

func (p *Probe) clone() *Probe {
	if p == nil {
		return nil
	}
	c := *p
	c.Exec = append([]string(nil), p.Exec...)
	return &c
}

func (p *Probe) validate() error {
	if p == nil {
		return nil
	}
	switch {
	case (p.TCP != 0) == (len(p.Exec) > 0):
		return Invalid("ready", "expected either a TCP port or a command")
	case p.TCP < 0 || p.TCP > 65535:
		return Invalid("ready", "%d is not a port", p.TCP)
	case p.Interval < 0 || p.Interval > 0 && time.Duration(p.Interval) < time.Millisecond ||
		time.Duration(p.Interval) > time.Hour:
		return Invalid("ready", "an interval of %s is not between 1ms and 1h", p.Interval)
	}
	return validateArgv("ready", p.Exec)
}

// ReadyWaiter is for providers that run the probe themselves. Its capability is CapReady. Without it the Service
// probes: with an exec, or with a connection through PortForwarder.
type ReadyWaiter interface {
	// WaitReady blocks until Spec.Ready has succeeded. KindConflict: the sandbox has no probe or no longer runs.
	WaitReady(ctx context.Context, id string) error
}
