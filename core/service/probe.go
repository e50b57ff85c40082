package service

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// defaultProbeInterval is the time between two attempts when the probe names none.
const defaultProbeInterval = time.Second

// WaitReady blocks until the readiness probe of a sandbox has succeeded, the sandbox has ended (KindConflict) or ctx
// has. If the provider does not run probes, the Service does: each attempt of a command is in the sandbox's journal.
// The error has the failure of the last attempt.
func (s Sandboxes) WaitReady(ctx context.Context, ref string) error {
	sb, p, err := s.resolve(ctx, ref)
	if err != nil {
		return err
	}
	probe := sb.Spec.Ready
	if probe == nil {
		return core.Errorf(core.KindConflict, "wait", ref, "it was launched without a readiness probe").
			WithHint("launch it with --ready-tcp PORT or --ready-exec COMMAND")
	}
	if waiter, ok := core.Optional[core.ReadyWaiter](p); ok {
		err := waiter.WaitReady(ctx, sb.ID)
		if err != nil && ctx.Err() != nil {
			return notReady(ctx, sb, ref, nil)
		}
		return about("wait", ref, sb, err)
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
		if ctx.Err() != nil { // which is no result of the probe
			return notReady(ctx, sb, ref, last)
		}
		last = failed
		if errors.Is(failed, core.KindUnsupported) || errors.Is(failed, core.KindUsage) {
			return core.Wrap("wait", ref, failed)
		}
		now, err := p.Get(ctx, sb.ID)
		if errors.Is(err, core.KindNotFound) {
			return about("wait", ref, sb, err)
		}
		if err == nil && now.State != core.StateRunning && now.State != core.StateCreating && now.State != core.StateQueued {
			return core.Errorf(core.KindConflict, "wait", ref, "it is %s and was never ready: %w", now.State, failed)
		}
		select {
		case <-ctx.Done():
			return notReady(ctx, sb, ref, last)
		case <-tick.C:
		}
	}
}

// notReady is the error of a wait that ended before the sandbox was ready. last is the result of the last attempt, or
// nil.
func notReady(ctx context.Context, sb core.Sandbox, ref string, last error) error {
	e := core.Errorf(core.KindOf(ctx.Err()), "wait", ref, "it is not ready yet")
	if last != nil {
		e = core.Errorf(core.KindOf(ctx.Err()), "wait", ref, "it is not ready yet: %w", last)
	}
	return e.WithHint("it keeps running; sb wait --ready %s waits for it, sb logs %s shows its output", sb.Name, sb.Name)
}

// attempt probes once.
func (s *base) attempt(ctx context.Context, p core.Provider, sb core.Sandbox, probe core.Probe) error {
	if probe.TCP != 0 {
		forwarder, err := capable[core.PortForwarder](s, sb.Provider, "wait")
		if err != nil {
			return err
		}
		var conn net.Conn
		if conn, err = forwarder.DialPort(ctx, sb.ID, probe.TCP); err != nil {
			return err
		}
		return conn.Close()
	}
	process, err := p.Exec(ctx, sb.ID, core.ExecSpec{Command: probe.Exec})
	if err != nil {
		return err
	}
	defer func() { _ = process.Close() }()
	exit, err := process.Wait(ctx)
	if err != nil {
		return err
	}
	if exit.Code != 0 {
		return core.Errorf(core.KindUnavailable, "wait", "", "%s ended with code %d", probe.Exec[0], exit.Code)
	}
	return nil
}
