package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// PruneOptions selects the objects that Prune removes.
type PruneOptions struct {
	// DryRun only reports.
	DryRun bool
	// OlderThan keeps dead sandboxes that ended more recently.
	OlderThan time.Duration
	// AllOwners also removes sandboxes of other owners.
	AllOwners bool
	// Checkpoints also removes checkpoints that are older than OlderThan.
	Checkpoints bool
}

// Prune removes dead sandboxes, sandboxes whose bound owner or lease is gone, and leftovers of crashes, including the
// targets of interrupted moves. It continues after a failure and reports it.
func (s *Service) Prune(ctx context.Context, opts PruneOptions) (report core.PruneReport, err error) {
	report = core.PruneReport{DryRun: opts.DryRun, Sandboxes: []core.Sandbox{}, Leftovers: []core.Leftover{}}
	listing, err := s.listAll(ctx, core.ListFilter{All: true}, providerTimeout)
	if err != nil {
		return report, err
	}
	report.Failures = listing.Failures
	fail := func(provider string, err error) {
		report.Failures = append(report.Failures, failure(provider, err))
	}
	prunable := slices.DeleteFunc(listing.Sandboxes, func(sb core.Sandbox) bool { return !s.prunable(sb, opts.OlderThan) })
	if !opts.AllOwners {
		mine, others, err := s.Sandboxes.Mine(prunable)
		if err != nil {
			return report, err
		}
		prunable, report.Others = mine, len(others)
	}
	for _, sb := range prunable {
		sb = s.Sandboxes.Sized(ctx, []core.Sandbox{sb})[0]
		if !opts.DryRun {
			if err := s.Sandboxes.Terminate(ctx, sb.Ref()); err != nil && !errors.Is(err, core.KindNotFound) {
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
		sweeper, ok := p.(core.Sweeper)
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
	s.pruneOrigins(ctx, opts, listing)
	if opts.Checkpoints {
		if err := s.pruneCheckpoints(ctx, opts, &report); err != nil {
			return report, err
		}
	}
	return report, ctx.Err()
}

// prunable reports whether Prune removes sb.
func (s *base) prunable(sb core.Sandbox, olderThan time.Duration) bool {
	if !sb.State.Live() {
		ended := sb.Ended
		if ended.IsZero() { // the end of a lost sandbox is unknown
			ended = slices.MaxFunc([]time.Time{sb.Created, sb.Started, sb.LastActive}, time.Time.Compare)
		}
		return s.now().Sub(ended) >= olderThan
	}
	if sb.Spec.Persist && (!sb.Lease.Bound || !sb.Orphaned()) {
		return false // its files are kept until the user removes them
	}
	// The lease has the original expiry; SetTimeout may have changed it since.
	expires := sb.Expires
	if sb.State == core.StateCreating {
		expires = sb.Lease.Expires
	}
	expired := !expires.IsZero() && sb.State != core.StateStopped && s.now().After(expires.Add(time.Minute))
	// A renewed sandbox ends when its renewals stop. Another process may renew it now, so only a bound one is removed.
	return expired || sb.Orphaned() && (sb.Lease.Bound || !sb.Lease.Renewed || !s.renews(sb.Provider))
}

// renews reports whether a provider can change the lifetime of a sandbox.
func (s *base) renews(provider string) bool {
	_, err := capable[core.Renewer](s, provider, "timeout")
	return err == nil
}

func (s *base) sweep(ctx context.Context, sweeper core.Sweeper, leftover core.Leftover) (err error) {
	record := s.begin("sweep", leftover.Subject)
	record.Provider = leftover.Provider
	defer func() { s.finish(record, err) }()
	return sweeper.Sweep(ctx, leftover)
}
