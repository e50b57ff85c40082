package service

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// act resolves a reference, runs one operation at its provider, and records it.
func (s *base) act(
	ctx context.Context, op, ref string, args map[string]any, do func(core.Sandbox, core.Provider) error,
) (err error) {
	record := s.begin(op, ref)
	record.Args = args
	defer func() { s.finish(record, err) }()
	sandbox, p, err := s.resolve(ctx, ref)
	if err != nil {
		return &unresolvedError{err}
	}
	record.of(sandbox)
	return about(op, ref, sandbox, do(sandbox, p))
}

// about wraps an error of an operation on sb. It names the sandbox by ref. If ref is the full reference, which commands
// use after they have found the sandbox, it uses the name.
func about(op, ref string, sb core.Sandbox, err error) error {
	ref = shown(ref, sb)
	err = core.Wrap(op, ref, err)
	if e, ok := errors.AsType[*core.Error](err); ok && (e.Subject == sb.ID || e.Subject == sb.Ref()) {
		e.Subject = ref
	}
	return err
}

func shown(ref string, sb core.Sandbox) string {
	if ref == sb.Ref() && sb.Name != "" {
		return sb.Name
	}
	return ref
}

// unresolvedError is why an operation did not find its sandbox.
type unresolvedError struct{ err error }

func (e *unresolvedError) Error() string { return e.err.Error() }
func (e *unresolvedError) Unwrap() error { return e.err }

// Unresolved reports whether an operation failed before it began, because its sandbox was not found or its provider did
// not answer.
func Unresolved(err error) bool {
	_, ok := errors.AsType[*unresolvedError](err)
	return ok
}

// Terminate ends a sandbox in any state and removes its leftovers.
func (s Sandboxes) Terminate(ctx context.Context, ref string) error {
	_, err := s.End(ctx, ref)
	return err
}

// End is Terminate and returns the exit code. It is the code of an entry command that had ended, or the provider's. It
// is nil if unknown.
func (s Sandboxes) End(ctx context.Context, ref string) (code *int, err error) {
	args := map[string]any{}
	err = s.act(ctx, "terminate", ref, args, func(sb core.Sandbox, p core.Provider) (err error) {
		code = sb.ExitCode
		if !sb.State.Live() && !sb.Ended.IsZero() {
			args["ended"] = sb.Ended.UTC().Format(time.RFC3339Nano)
		}
		if ender, ok := p.(core.Ender); ok {
			code, err = ender.End(ctx, sb.ID)
		} else {
			err = p.Terminate(ctx, sb.ID)
		}
		if err != nil {
			return err
		}
		s.forgetOrigins(sb)
		s.announceEnd(sb)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return code, nil
}

// Stop ends every command of a persistent sandbox and keeps its filesystem. Processes have grace to end by themselves.
func (s Sandboxes) Stop(ctx context.Context, ref string, grace time.Duration) error {
	return change(ctx, s.base, "stop", ref, func(p core.Stopper, ctx context.Context, id string) error {
		return p.Stop(ctx, id, grace)
	})
}

// Start starts a stopped or crashed persistent sandbox again.
func (s Sandboxes) Start(ctx context.Context, ref string) (started core.Sandbox, err error) {
	err = s.act(ctx, "start", ref, nil, func(sb core.Sandbox, _ core.Provider) error {
		stopper, err := capable[core.Stopper](s.base, sb.Provider, "start")
		if err != nil {
			return err
		}
		started, err = stopper.Start(ctx, sb.ID)
		if err == nil {
			s.announce(started)
		}
		return err
	})
	return started, err
}

// Pause suspends every process of a sandbox until Resume.
func (s Sandboxes) Pause(ctx context.Context, ref string) error {
	return change(ctx, s.base, "pause", ref, core.Pauser.Pause)
}

// Resume continues a paused sandbox.
func (s Sandboxes) Resume(ctx context.Context, ref string) error {
	return change(ctx, s.base, "resume", ref, core.Pauser.Resume)
}

// change runs an operation of the optional interface T and announces the state after it.
func change[T any](ctx context.Context, s *base, op, ref string, do func(T, context.Context, string) error) error {
	return s.act(ctx, op, ref, nil, func(sb core.Sandbox, _ core.Provider) error {
		p, err := capable[T](s, sb.Provider, op)
		if err != nil {
			return err
		}
		if err := do(p, ctx, sb.ID); err != nil {
			return err
		}
		return s.refresh(ctx, sb)
	})
}

// SetTimeout sets the remaining lifetime of a sandbox; 0 means no limit, if the quota allows it.
func (s Sandboxes) SetTimeout(
	ctx context.Context, ref string, timeout time.Duration,
) (renewed core.Sandbox, err error) {
	most := time.Duration(s.quotas.MaxLifetime)
	if timeout < 0 || timeout > core.MaxLifetime {
		return core.Sandbox{}, core.Invalid("timeout", "%s is not between 0 and ten years", timeout)
	}
	if most > 0 && (timeout == 0 || timeout > most) {
		return core.Sandbox{}, core.Errorf(
			core.KindExhausted, "timeout", ref, "it exceeds the quota of %s", core.Duration(most),
		)
	}
	if err := s.scope.Policy.admitTimeout(timeout); err != nil {
		return core.Sandbox{}, err
	}
	err = s.act(ctx, "timeout", ref, map[string]any{"timeout": core.Duration(timeout)}, func(
		sb core.Sandbox, _ core.Provider,
	) error {
		renewer, err := capable[core.Renewer](s.base, sb.Provider, "timeout")
		if err != nil {
			return err
		}
		if err := s.checkBudget(sb, timeout); err != nil {
			return err
		}
		renewed, err = renewer.SetTimeout(ctx, sb.ID, timeout)
		return err
	})
	return renewed, err
}

// Wait blocks until a sandbox is neither running nor paused, and returns its final state. A sandbox that is terminated
// in between is returned as exited, with ReasonStopped.
func (s Sandboxes) Wait(ctx context.Context, ref string) (core.Sandbox, error) {
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return core.Sandbox{}, err
	}
	waiter, err := capable[core.Waiter](s.base, sb.Provider, "wait")
	if err != nil {
		return core.Sandbox{}, err
	}
	ended, err := waiter.WaitSandbox(ctx, sb.ID)
	if errors.Is(err, core.KindNotFound) {
		sb.State, sb.Reason, sb.Message, sb.Ended = core.StateExited, core.ReasonStopped, "it was terminated", s.now()
		sb.Frozen, sb.Ports = false, nil
		return sb, nil
	}
	return ended, about("wait", ref, sb, err)
}

// Stats measures a sandbox.
func (s Sandboxes) Stats(ctx context.Context, ref string) (core.Stats, error) {
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return core.Stats{}, err
	}
	reader, err := capable[core.StatsReader](s.base, sb.Provider, "stats")
	if err != nil {
		return core.Stats{}, err
	}
	stats, err := reader.Stats(ctx, sb.ID)
	return stats, about("stats", ref, sb, err)
}

// Sized returns the sandboxes with the Size of the persistent ones, for the question before a removal. A size that is
// not known soon stays 0.
func (s Sandboxes) Sized(ctx context.Context, boxes []core.Sandbox) []core.Sandbox {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	sized := slices.Clone(boxes)
	slots := make(chan struct{}, sizesAtOnce)
	var all sync.WaitGroup
	for i := range sized {
		sizer, err := capable[core.Sizer](s.base, sized[i].Provider, "size")
		if !sized[i].Spec.Persist || err != nil {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if size, err := sizer.Size(ctx, sized[i].ID); err == nil {
				sized[i].Size = size
			}
		})
	}
	all.Wait()
	return sized
}

// sizesAtOnce bounds how many sandboxes are measured at the same time.
const sizesAtOnce = 8

// refresh announces the state that a sandbox has now.
func (s *base) refresh(ctx context.Context, sb core.Sandbox) error {
	lazy, err := s.provider(sb.Provider)
	if err != nil {
		return err
	}
	p, err := lazy.open()
	if err != nil {
		return err
	}
	now, err := p.Get(ctx, sb.ID)
	if err != nil {
		s.log.WarnContext(ctx, "state after the operation is unknown", "sandbox", sb.ID, "error", err)
		return nil
	}
	s.announce(now)
	return nil
}

func (s *base) announce(sb core.Sandbox) {
	s.broker.publish(core.Event{
		Time: s.now(), Type: core.EventState, Provider: sb.Provider, Sandbox: sb.ID, Name: sb.Name,
		State: sb.State, Reason: sb.Reason, Message: sb.Message, Actor: s.owner.Actor,
	})
}

// announceEnd announces that a sandbox was terminated.
func (s *base) announceEnd(sb core.Sandbox) {
	s.broker.publish(core.Event{
		Time: s.now(), Type: core.EventState, Provider: sb.Provider, Sandbox: sb.ID, Name: sb.Name,
	})
}

// KeepAlive sets the remaining lifetime of a sandbox with a renewed lease; its holder calls it regularly. The end is
// never later than the lifetime of the launch. An end set by SetTimeout stays. KeepAlive is neither recorded nor
// published.
func (s Sandboxes) KeepAlive(ctx context.Context, ref string, lease time.Duration) error {
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return err
	}
	renewer, err := capable[core.Renewer](s.base, sb.Provider, "timeout")
	if err != nil {
		return err
	}
	if end := sb.Lease.Expires; !end.IsZero() {
		lease = min(lease, end.Sub(s.now()))
	}
	if !sb.Lease.Renewed || lease <= 0 {
		return nil // another end stands
	}
	return core.Wrap("timeout", ref, renewer.KeepAlive(ctx, sb.ID, lease))
}
