package core

import (
	"context"
	"time"
)

// ForkSpec says what a fork has of its own; all else it has as its source.
type ForkSpec struct {
	// Name is unique among the provider's live sandboxes.
	Name string
	// Labels are all of the fork's labels.
	Labels map[string]string
	// Timeout is the fork's lifetime, from now; 0 and NoTimeout are none.
	Timeout Duration
}

// Forker copies running sandboxes, processes and memory included.
type Forker interface {
	// Fork makes a sandbox that goes on from where the one with that id is now: its processes, its memory and its
	// files, which change apart from then on. Volumes are shared. The source is held up for a moment and loses
	// nothing, its connections and commands included. The fork has new ports, no connections, a lifetime of its own and the source's
	// secrets, and its commands are journalled anew; the provider says which processes cannot be copied. lease is made durable before anything
	// is built; when Fork fails nothing is left behind.
	// KindConflict: the source is not running, or the name is taken. KindUnsupported: this one cannot be forked.
	Fork(ctx context.Context, id string, spec ForkSpec, lease Lease) (Sandbox, error)
}

// ForkOptions is what a fork is asked for with.
type ForkOptions struct {
	// Name is the fork's; "" makes one.
	Name string
	// Bound and Renewed are as in LaunchOptions.
	Bound, Renewed bool
}

// Fork copies a running sandbox, processes and memory included. Quotas and the scope's policy hold as for a launch.
func (s *Service) Fork(ctx context.Context, ref string, opts ForkOptions) (fork Sandbox, err error) {
	args := map[string]any{"name": opts.Name}
	err = s.act(ctx, "fork", ref, args, func(sb Sandbox, p Provider) error {
		forker, err := capable[Forker](s, sb.Provider, "fork", CapFork)
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
			spec.Name = NewName()
		}
		if err := s.checkName(spec.Name); err != nil {
			return err
		}
		args["name"] = spec.Name
		owner, err := s.asOwner()
		if err != nil {
			return err
		}
		lease := Lease{Owner: owner, Created: s.now().UTC(), Bound: opts.Bound, Renewed: opts.Renewed}
		if spec.Timeout > 0 {
			lease.Expires = lease.Created.Add(time.Duration(spec.Timeout))
		}
		fork, err = forker.Fork(ctx, sb.ID, ForkSpec{Name: spec.Name, Labels: spec.Labels, Timeout: spec.Timeout}, lease)
		if err != nil {
			return err
		}
		// With its own spec what it costs can be told when it is gone.
		args["fork"], args["spec"] = fork.ID, spec.Redacted()
		if err := s.recheckCount(ctx, p, fork); err != nil {
			fork = Sandbox{}
			return err
		}
		s.announce(fork)
		return nil
	})
	return fork, err
}
