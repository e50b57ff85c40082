package service

import (
	"context"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// ForkOptions are the options of a fork.
type ForkOptions struct {
	// Name is the fork's; "" makes one.
	Name string
	// Bound and Renewed are as in LaunchOptions.
	Bound, Renewed bool
}

// Fork copies a running sandbox, processes and memory included. Quotas and the scope's policy hold as for a launch.
func (s Sandboxes) Fork(ctx context.Context, ref string, opts ForkOptions) (fork core.Sandbox, err error) {
	args := map[string]any{"name": opts.Name}
	err = s.act(ctx, "fork", ref, args, func(sb core.Sandbox, p core.Provider) error {
		forker, err := capable[core.Forker](s.base, sb.Provider, "fork")
		if err != nil {
			return err
		}
		spec := sb.Spec.Clone()
		spec.Provider, spec.Name = sb.Provider, opts.Name
		if err := s.admit(&spec); err != nil {
			return err
		}
		if err := s.checkQuotas(ctx, &spec); err != nil {
			return err
		}
		if spec.Name == "" {
			spec.Name = core.NewName()
		}
		if err := s.checkName(spec.Name); err != nil {
			return err
		}
		args["name"] = spec.Name
		owner, err := s.asOwner()
		if err != nil {
			return err
		}
		lease := core.Lease{Owner: owner, Created: s.now().UTC(), Bound: opts.Bound, Renewed: opts.Renewed}
		if spec.Timeout > 0 {
			lease.Expires = lease.Created.Add(time.Duration(spec.Timeout))
		}
		fork, err = forker.Fork(ctx, sb.ID, core.ForkSpec{Name: spec.Name, Labels: spec.Labels, Timeout: spec.Timeout}, lease)
		if err != nil {
			return err
		}
		// The record has the fork's own spec, so that its cost is known after its removal.
		args["fork"], args["spec"] = fork.ID, spec.Redacted()
		if err := s.recheckCount(ctx, p, fork); err != nil {
			fork = core.Sandbox{}
			return err
		}
		s.inheritOrigins(sb, fork)
		s.announce(fork)
		return nil
	})
	return fork, err
}
