package core

import (
	"context"
	"net"
	"time"
)

// defaultProbeInterval is the time between two attempts when the probe names none.
const defaultProbeInterval = time.Second

// Probe is how it is seen that a sandbox is ready for those it serves. Exactly one of TCP and Exec is set.
type Probe struct {
	// TCP is a port inside that accepts connections, 1 to 65535.
	TCP int `json:"tcp,omitempty"`
	// Exec is a command inside that ends with code 0.
	Exec []string `json:"exec,omitempty"`
	// Interval is the time between two attempts, a second without it.
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
		return invalid("ready", "it needs either a tcp port or a command to exec")
	case p.TCP < 0 || p.TCP > 65535:
		return invalid("ready", "%d is not a port", p.TCP)
	case p.Interval < 0 || p.Interval > 0 && time.Duration(p.Interval) < time.Millisecond || time.Duration(p.Interval) > time.Hour:
		return invalid("ready", "an interval of %s is not between 1ms and 1h", p.Interval)
	}
	return validateArgv("ready", p.Exec)
}

// ReadyWaiter probes a sandbox where it runs. Without it (CapReady) the Service itself probes:
// a command with Exec, a port with PortForwarder.
type ReadyWaiter interface {
	// WaitReady blocks until Spec.Ready has succeeded. KindConflict: the sandbox has no probe, or does not run any more.
	WaitReady(ctx context.Context, id string) error
}

// WaitReady blocks until the readiness probe of a sandbox has succeeded, the sandbox has ended (KindConflict) or
// ctx has. A provider that does not probe by itself is probed from here: each attempt of a command is in the sandbox's
// journal, and the last one's failure in the error.
func (s *Service) WaitReady(ctx context.Context, ref string) error {
	sb, p, err := s.resolve(ctx, ref)
	if err != nil {
		return err
	}
	probe := sb.Spec.Ready
	if probe == nil {
		return Errorf(KindConflict, "wait", ref, "it was launched without a readiness probe").
			WithHint("launch it with --ready-tcp PORT or --ready-exec COMMAND")
	}
	if waiter, ok := As[ReadyWaiter](p); ok && p.Capabilities().Can(CapReady) {
		err := waiter.WaitReady(ctx, sb.ID)
		if err != nil && ctx.Err() != nil {
			return notReady(ctx, sb, ref, nil)
		}
		return Wrap("wait", ref, err)
	}
	interval := time.Duration(probe.Interval)
	if interval == 0 {
		interval = defaultProbeInterval
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last error
	for {
		failed := s.attempt(ctx, p, sb, *probe)
		if failed == nil {
			return nil
		}
		if ctx.Err() != nil { // which says nothing of the sandbox
			return notReady(ctx, sb, ref, last)
		}
		last = failed
		if KindOf(failed) == KindUnsupported || KindOf(failed) == KindUsage {
			return Wrap("wait", ref, failed)
		}
		now, err := p.Get(ctx, sb.ID)
		if err != nil && KindOf(err) == KindNotFound {
			return Wrap("wait", ref, err)
		}
		if err == nil && now.State != StateRunning && now.State != StateCreating && now.State != StateQueued {
			return Errorf(KindConflict, "wait", ref, "it is %s and was never ready: %w", now.State, failed)
		}
		select {
		case <-ctx.Done():
			return notReady(ctx, sb, ref, last)
		case <-tick.C:
		}
	}
}

// notReady is the error of a wait that ended before the sandbox was ready. last is what the last attempt found, nil is not known.
func notReady(ctx context.Context, sb Sandbox, ref string, last error) error {
	e := Errorf(KindOf(ctx.Err()), "wait", ref, "it is not ready yet")
	if last != nil {
		e = Errorf(KindOf(ctx.Err()), "wait", ref, "it is not ready yet: %w", last)
	}
	return e.WithHint("it goes on; sb wait --ready %s waits for it, sb logs %s shows what it wrote", sb.Name, sb.Name)
}

// attempt probes once.
func (s *Service) attempt(ctx context.Context, p Provider, sb Sandbox, probe Probe) error {
	if probe.TCP != 0 {
		forwarder, err := capable[PortForwarder](s, sb.Provider, "wait", CapPortForward)
		if err != nil {
			return err
		}
		var conn net.Conn
		if conn, err = forwarder.DialPort(ctx, sb.ID, probe.TCP); err != nil {
			return err
		}
		return conn.Close()
	}
	process, err := p.Exec(ctx, sb.ID, ExecSpec{Command: probe.Exec})
	if err != nil {
		return err
	}
	defer func() { _ = process.Close() }()
	exit, err := process.Wait(ctx)
	if err != nil {
		return err
	}
	if exit.Code != 0 {
		return Errorf(KindUnavailable, "wait", "", "%s ended with code %d", probe.Exec[0], exit.Code)
	}
	return nil
}
