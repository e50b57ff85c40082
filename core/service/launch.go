package service

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Quotas are the limits of this user. A zero field means no limit.
type Quotas struct {
	MaxSandboxes int // live ones, over all reachable providers
	MaxCPU       float64
	MaxMemory    core.Bytes
	MaxLifetime  core.Duration
}

// LaunchOptions are the options of a launch beside its spec.
type LaunchOptions struct {
	// Bound ties the sandbox to this process: Prune may remove it after the process has ended.
	Bound bool
	// Renewed is as in Lease: the caller calls KeepAlive regularly.
	Renewed  bool
	Progress core.ProgressFunc
	// Named means that the user named the host directories of the spec's volumes for this launch. See HostPaths.
	Named bool
	// Notice, if set, is called before the launch with a sentence for the user about a lifetime that the caller did not
	// request.
	Notice func(text string)
	// Confirm, if set, receives the complete spec before the launch: with templates, defaults and the values of secrets.
	// Its error cancels the launch.
	Confirm func(core.Spec) error
}

// Launch creates a sandbox and returns when commands can run in it.
func (s Sandboxes) Launch(ctx context.Context, spec core.Spec, opts LaunchOptions) (sandbox core.Sandbox, err error) {
	record := s.begin("launch", "")
	defer func() { s.finish(record.of(sandbox), err) }()
	spec, defaultLimits, requested, err := s.prepare(ctx, spec, opts.Named)
	record.Args = map[string]any{"spec": spec.Redacted()}
	if err != nil {
		return core.Sandbox{}, err
	}
	if spec.Name == "" {
		spec.Name = core.NewName()
	}
	if err := s.checkName(spec.Name); err != nil {
		return core.Sandbox{}, err
	}
	if err := s.checkQuotas(ctx, &spec); err != nil {
		return core.Sandbox{}, err
	}
	record.Name = spec.Name
	if opts.Confirm != nil {
		if err := opts.Confirm(spec.Clone()); err != nil {
			return core.Sandbox{}, err
		}
	}
	p, err := s.choose(ctx, &spec, defaultLimits)
	if err != nil {
		return core.Sandbox{}, err
	}
	shortened := s.boundGPU(&spec, requested)
	if err := s.budget(&spec, spec.Provider, requested); err != nil {
		return core.Sandbox{}, err
	}
	if shortened && opts.Notice != nil {
		opts.Notice(
			fmt.Sprintf("%s has a GPU, so it ends after %s; set a timeout for another lifetime", spec.Name, spec.Timeout),
		)
	}
	record.Args["spec"] = spec.Redacted()
	owner, err := s.asOwner()
	if err != nil {
		return core.Sandbox{}, core.Wrap("launch", spec.Name, err)
	}
	lease := core.Lease{Owner: owner, Created: s.now().UTC(), Bound: opts.Bound, Renewed: opts.Renewed}
	if spec.Timeout > 0 {
		lease.Expires = lease.Created.Add(time.Duration(spec.Timeout))
	}
	surveys := s.surveyCopies(ctx, spec)
	defer surveys.stop()
	sandbox, err = p.Launch(ctx, spec, lease, func(progress core.Progress) {
		s.broker.publish(core.Event{
			Time: s.now(), Type: core.EventProgress, Provider: spec.Provider, Name: spec.Name, Progress: &progress,
		})
		if opts.Progress != nil {
			opts.Progress(progress)
		}
	})
	if err != nil {
		return core.Sandbox{}, core.Wrap("launch", spec.Name, err)
	}
	// The record needs the provider's choices: they are unknown after the sandbox's removal.
	fill(&spec.App, sandbox.App)
	fill(&spec.Timeout, sandbox.Spec.Timeout)
	record.Args["spec"] = spec.Redacted()
	if err := s.recheckCount(ctx, p, sandbox); err != nil {
		return core.Sandbox{}, err
	}
	if err := surveys.record(sandbox); err != nil && opts.Notice != nil {
		opts.Notice(fmt.Sprintf("the state of the host directory was not recorded, so sb apply needs --force: %v", err))
	}
	s.announce(sandbox)
	sandbox.Cost = s.costOf(sandbox)
	return sandbox, nil
}

// prepare completes a launch with templates, checkpoints, the scope and the defaults, and validates it. named is
// LaunchOptions.Named. requested is the lifetime without the defaults. With an error it returns the spec as far as it
// was completed.
func (s *base) prepare(
	ctx context.Context, spec core.Spec, named bool,
) (complete core.Spec, defaultLimits []defaultLimit, requested core.Duration, err error) {
	spec = spec.Clone()
	// The directories of a checkpoint were checked when its sandbox was launched.
	for _, step := range []func(*core.Spec) error{
		s.instantiate, func(spec *core.Spec) error { return s.mountable(spec, named) },
		func(spec *core.Spec) error { return s.inherit(ctx, spec) }, s.admit,
	} {
		if err := step(&spec); err != nil {
			return spec, nil, 0, err
		}
	}
	defaultLimits, requested = s.defaultLimits(spec), spec.Timeout
	spec = s.withDefaults(spec)
	if spec.IdleTimeout == core.NoTimeout {
		spec.IdleTimeout = 0 // no default replaces it
	}
	if spec.Pull == core.PullMissing {
		spec.Pull = core.PullDefault // likewise
	}
	return spec, defaultLimits, requested, s.check(spec)
}

// check validates a spec, and with it the sections of providers.
func (s *base) check(spec core.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	for _, lazy := range s.lazyProviders {
		if lazy.factory.CheckSpec == nil {
			continue
		}
		if err := lazy.factory.CheckSpec(spec); err != nil {
			return err
		}
	}
	return nil
}

// choose selects a provider for a spec, opens it and adapts the spec to it.
func (s *base) choose(ctx context.Context, spec *core.Spec, defaultLimits []defaultLimit) (core.Provider, error) {
	placement, err := s.place(ctx, *spec, defaultLimits, false)
	if err != nil {
		return nil, err
	}
	if placement.Chosen == "" {
		return nil, s.refusal(placement, *spec, defaultLimits)
	}
	lazy, err := s.provider(placement.Chosen)
	if err != nil {
		return nil, err
	}
	p, err := lazy.open()
	if err != nil {
		return nil, err
	}
	*spec = fit(*spec, defaultLimits, p.Capabilities())
	spec.Provider = placement.Chosen
	if images := p.Capabilities().Images; spec.Image == "" && spec.Dockerfile == "" && spec.Template == "" &&
		spec.Snapshot == "" && spec.Checkpoint == "" && len(images) > 0 {
		spec.Image = images[0]
	}
	return p, nil
}

// recheckCount ends a new sandbox if it exceeds a quota because of other launches at the same time.
func (s *base) recheckCount(ctx context.Context, p core.Provider, sandbox core.Sandbox) error {
	err := s.checkCount(ctx, 0)
	if err == nil {
		return nil
	}
	if endErr := p.Terminate(context.WithoutCancel(ctx), sandbox.ID); endErr != nil {
		s.log.Warn("a sandbox over the quota could not be ended", "id", sandbox.ID, "error", endErr)
	}
	return err
}

// checkName rejects an invalid sandbox name and one that looks like an id.
func (s *base) checkName(name string) error {
	if err := core.ValidateName("name", name); err != nil {
		return err
	}
	for _, lazy := range s.lazyProviders {
		if prefix := lazy.factory.IDPrefix; prefix != "" && strings.HasPrefix(name, prefix) {
			return core.Invalid("name", "%q looks like an id of provider %s", name, lazy.factory.Name).
				WithHint("choose a name that does not begin with %q", prefix)
		}
	}
	return nil
}

// checkQuotas rejects a spec beyond the limits. An open lifetime becomes the longest allowed.
func (s *base) checkQuotas(ctx context.Context, spec *core.Spec) error {
	q := s.quotas
	if q.MaxCPU > 0 && spec.CPU > q.MaxCPU {
		return overQuota("cpu", fmt.Sprint(spec.CPU), fmt.Sprint(q.MaxCPU))
	}
	if q.MaxMemory > 0 && spec.Memory > q.MaxMemory {
		return overQuota("memory", spec.Memory.String(), q.MaxMemory.String())
	}
	if q.MaxLifetime > 0 {
		if spec.Timeout == core.NoTimeout || spec.Timeout > q.MaxLifetime {
			return overQuota("lifetime", spec.Timeout.String(), q.MaxLifetime.String())
		}
		fill(&spec.Timeout, q.MaxLifetime)
	}
	fill(&spec.CPU, q.MaxCPU)
	fill(&spec.Memory, q.MaxMemory)
	return s.checkCount(ctx, 1)
}

// checkCount rejects a launch of more sandboxes if the quota or the scope's limit would be exceeded.
func (s *base) checkCount(ctx context.Context, more int) error {
	if most := s.scope.MaxSandboxes; most > 0 {
		listing, err := Sandboxes{s}.List(ctx, core.ListFilter{Labels: s.scope.Counted})
		if err != nil {
			return err
		}
		if len(listing.Sandboxes)+more > most {
			return core.Errorf(
				core.KindExhausted, "launch", "", "the limit of %d sandboxes is reached", most,
			).
				WithHint("use one of them, or terminate one")
		}
	}
	if s.quotas.MaxSandboxes == 0 {
		return nil
	}
	all := *s // the quota also counts sandboxes outside the scope
	all.scope = Scope{}
	listing, err := Sandboxes{&all}.List(ctx, core.ListFilter{})
	if err != nil {
		return err
	}
	mine, _, err := Sandboxes{s}.Mine(listing.Sandboxes)
	if err != nil {
		return err
	}
	if n := len(mine) + more; n > s.quotas.MaxSandboxes {
		return overQuota("sandboxes", fmt.Sprint(n), fmt.Sprint(s.quotas.MaxSandboxes))
	}
	return nil
}

func overQuota(field, requested, most string) error {
	return core.Errorf(core.KindExhausted, "launch", "", "%s of %s exceeds the quota of %s", field, requested, most).
		WithHint("request less, or raise the quota with: sb config set quotas.max_%s VALUE", field)
}
