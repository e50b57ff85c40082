package core

import (
	"context"
	"slices"
	"time"
)

// act resolves a reference, runs one operation at its provider, and records it.
func (s *Service) act(ctx context.Context, op, ref string, args map[string]any, do func(Sandbox, Provider) error) (err error) {
	record := s.begin(op, ref)
	record.Args = args
	defer func() { s.finish(record, err) }()
	sandbox, p, err := s.resolve(ctx, ref)
	if err != nil {
		return err
	}
	record.of(sandbox)
	return Wrap(op, ref, do(sandbox, p))
}

// Terminate ends a sandbox, whatever its state, and removes all that it left.
func (s *Service) Terminate(ctx context.Context, ref string) error {
	_, err := s.End(ctx, ref)
	return err
}

// End is Terminate, and returns the exit code: that of an entry command which had ended, or what the provider tells of its own end; nil when none
// is known.
func (s *Service) End(ctx context.Context, ref string) (code *int, err error) {
	err = s.act(ctx, "terminate", ref, nil, func(sb Sandbox, p Provider) (err error) {
		code = sb.ExitCode
		if ender, ok := As[Ender](p); ok {
			code, err = ender.End(ctx, sb.ID)
		} else {
			err = p.Terminate(ctx, sb.ID)
		}
		if err != nil {
			return err
		}
		s.broker.publish(Event{Time: s.now(), Type: EventState, Provider: sb.Provider, Sandbox: sb.ID, Name: sb.Name})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return code, nil
}

// Stop ends every command of a persistent sandbox and keeps its filesystem.
// Processes get grace to end by themselves.
func (s *Service) Stop(ctx context.Context, ref string, grace time.Duration) error {
	return s.act(ctx, "stop", ref, nil, func(sb Sandbox, _ Provider) error {
		stopper, err := capable[Stopper](s, sb.Provider, "stop", CapStop)
		if err != nil {
			return err
		}
		if err := stopper.Stop(ctx, sb.ID, grace); err != nil {
			return err
		}
		return s.refresh(ctx, sb)
	})
}

// Start brings a stopped or crashed persistent sandbox back.
func (s *Service) Start(ctx context.Context, ref string) (started Sandbox, err error) {
	err = s.act(ctx, "start", ref, nil, func(sb Sandbox, _ Provider) error {
		stopper, err := capable[Stopper](s, sb.Provider, "start", CapStop)
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
func (s *Service) Pause(ctx context.Context, ref string) error {
	return s.act(ctx, "pause", ref, nil, func(sb Sandbox, _ Provider) error {
		pauser, err := capable[Pauser](s, sb.Provider, "pause", CapPause)
		if err != nil {
			return err
		}
		if err := pauser.Pause(ctx, sb.ID); err != nil {
			return err
		}
		return s.refresh(ctx, sb)
	})
}

// Resume lets a paused sandbox go on.
func (s *Service) Resume(ctx context.Context, ref string) error {
	return s.act(ctx, "resume", ref, nil, func(sb Sandbox, _ Provider) error {
		pauser, err := capable[Pauser](s, sb.Provider, "resume", CapPause)
		if err != nil {
			return err
		}
		if err := pauser.Resume(ctx, sb.ID); err != nil {
			return err
		}
		return s.refresh(ctx, sb)
	})
}

// SetTimeout makes a sandbox end so long from now; 0 means never, if the quota allows it.
func (s *Service) SetTimeout(ctx context.Context, ref string, timeout time.Duration) (renewed Sandbox, err error) {
	most := time.Duration(s.quotas.MaxLifetime)
	if timeout < 0 || timeout > maxLifetime {
		return Sandbox{}, invalid("timeout", "%s is not between 0 and ten years", timeout)
	}
	if most > 0 && (timeout == 0 || timeout > most) {
		return Sandbox{}, Errorf(KindExhausted, "timeout", ref, "it is over the quota of %s", Duration(most))
	}
	if err := s.scope.Policy.admitTimeout(timeout); err != nil {
		return Sandbox{}, err
	}
	err = s.act(ctx, "timeout", ref, map[string]any{"timeout": Duration(timeout)}, func(sb Sandbox, _ Provider) error {
		renewer, err := capable[Renewer](s, sb.Provider, "timeout", CapRenew)
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

// Wait blocks until a sandbox is neither running nor paused, and returns it as it is then.
func (s *Service) Wait(ctx context.Context, ref string) (Sandbox, error) {
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return Sandbox{}, err
	}
	waiter, err := capable[Waiter](s, sb.Provider, "wait", CapWait)
	if err != nil {
		return Sandbox{}, err
	}
	sb, err = waiter.WaitSandbox(ctx, sb.ID)
	return sb, Wrap("wait", ref, err)
}

// Stats measures a sandbox.
func (s *Service) Stats(ctx context.Context, ref string) (Stats, error) {
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return Stats{}, err
	}
	reader, err := capable[StatsReader](s, sb.Provider, "stats", CapStats)
	if err != nil {
		return Stats{}, err
	}
	stats, err := reader.Stats(ctx, sb.ID)
	return stats, Wrap("stats", ref, err)
}

// refresh announces the state that a sandbox has now.
func (s *Service) refresh(ctx context.Context, sb Sandbox) error {
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

func (s *Service) announce(sb Sandbox) {
	s.broker.publish(Event{
		Time: s.now(), Type: EventState, Provider: sb.Provider, Sandbox: sb.ID, Name: sb.Name,
		State: sb.State, Reason: sb.Reason, Message: sb.Message, Actor: s.owner.Actor,
	})
}

// PruneOptions says what Prune removes.
type PruneOptions struct {
	// DryRun only says what would be removed.
	DryRun bool
	// OlderThan spares dead sandboxes that ended more recently.
	OlderThan time.Duration
	// Checkpoints removes checkpoints, too: those that are older than OlderThan.
	Checkpoints bool
}

// PruneReport says what Prune removed, or would.
type PruneReport struct {
	DryRun    bool       `json:"dry_run"`
	Sandboxes []Sandbox  `json:"sandboxes"`
	Leftovers []Leftover `json:"leftovers"`
	// Checkpoints are there if they were asked for.
	Checkpoints []Checkpoint      `json:"checkpoints,omitempty"`
	Failures    []ProviderFailure `json:"failures,omitempty"`
}

// Prune removes dead sandboxes, those whose bound owner or lease is gone, and what
// crashes left behind, the targets of moves that were cut short among it. It goes on after a failure and reports it.
func (s *Service) Prune(ctx context.Context, opts PruneOptions) (report PruneReport, err error) {
	report = PruneReport{DryRun: opts.DryRun, Sandboxes: []Sandbox{}, Leftovers: []Leftover{}}
	listing, err := s.listAll(ctx, ListFilter{All: true}, providerTimeout)
	if err != nil {
		return report, err
	}
	report.Failures = listing.Failures
	fail := func(provider string, err error) {
		report.Failures = append(report.Failures, ProviderFailure{provider, KindOf(err), err.Error(), HintOf(err)})
	}
	for _, sb := range listing.Sandboxes {
		if !s.prunable(sb, opts.OlderThan) {
			continue
		}
		if !opts.DryRun {
			if err := s.Terminate(ctx, sb.Provider+"/"+sb.ID); err != nil && KindOf(err) != KindNotFound {
				fail(sb.Provider, err)
				continue
			}
		}
		report.Sandboxes = append(report.Sandboxes, sb)
	}
	for _, lazy := range s.lazyProviders {
		p, err := lazy.open()
		if err != nil {
			continue // List has reported it
		}
		sweeper, ok := As[Sweeper](p)
		if !ok {
			continue
		}
		leftovers, err := sweeper.Leftovers(ctx)
		if err != nil {
			fail(lazy.factory.Name, err)
		}
		for _, leftover := range leftovers {
			if !opts.DryRun {
				if err := s.sweep(ctx, sweeper, leftover); err != nil {
					fail(lazy.factory.Name, err)
					continue
				}
			}
			report.Leftovers = append(report.Leftovers, leftover)
		}
	}
	s.pruneMoves(ctx, opts, &report)
	if opts.Checkpoints {
		if err := s.pruneCheckpoints(ctx, opts, &report); err != nil {
			return report, err
		}
	}
	return report, ctx.Err()
}

// prunable says whether Prune removes sb.
func (s *Service) prunable(sb Sandbox, olderThan time.Duration) bool {
	if !sb.State.Live() {
		ended := sb.Ended
		if ended.IsZero() { // nobody saw the end of a lost one
			ended = slices.MaxFunc([]time.Time{sb.Created, sb.Started, sb.LastActive}, time.Time.Compare)
		}
		return s.now().Sub(ended) >= olderThan
	}
	// The lease says what was asked for at first; SetTimeout may have changed it since.
	expires := sb.Expires
	if sb.State == StateCreating {
		expires = sb.Lease.Expires
	}
	expired := !expires.IsZero() && sb.State != StateStopped && s.now().After(expires.Add(time.Minute))
	// One that is renewed ends by itself, and may be in use by whoever took it over, unless it is bound.
	return expired || sb.Orphaned() && (sb.Lease.Bound || !sb.Lease.Renewed || !s.renews(sb.Provider))
}

// renews says whether a provider can change how long a sandbox lives.
func (s *Service) renews(provider string) bool {
	_, err := capable[Renewer](s, provider, "timeout", CapRenew)
	return err == nil
}

func (s *Service) sweep(ctx context.Context, sweeper Sweeper, leftover Leftover) (err error) {
	record := s.begin("sweep", leftover.Subject)
	record.Provider = leftover.Provider
	defer func() { s.finish(record, err) }()
	return sweeper.Sweep(ctx, leftover)
}

// KeepAlive makes a sandbox whose lease is renewed end so long from now, for a holder that says from time to time
// that it is still there; never later than it was launched for, and never otherwise than SetTimeout said.
// It is neither recorded nor published.
func (s *Service) KeepAlive(ctx context.Context, ref string, lease time.Duration) error {
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return err
	}
	renewer, err := capable[Renewer](s, sb.Provider, "timeout", CapRenew)
	if err != nil {
		return err
	}
	if end := sb.Lease.Expires; !end.IsZero() {
		lease = min(lease, end.Sub(s.now()))
	}
	if !sb.Lease.Renewed || lease <= 0 {
		return nil // another end stands
	}
	return Wrap("timeout", ref, renewer.KeepAlive(ctx, sb.ID, lease))
}

// GivenSecrets returns the secrets that a sandbox was given, with their values.
func (s *Service) GivenSecrets(ctx context.Context, ref string) ([]Secret, error) {
	sb, _, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	teller, err := capable[SecretTeller](s, sb.Provider, "secrets", CapGivenSecrets)
	if err != nil {
		return nil, err
	}
	secrets, err := teller.GivenSecrets(ctx, sb.ID)
	return secrets, Wrap("secrets", ref, err)
}
