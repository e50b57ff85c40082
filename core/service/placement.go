package service

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// Placement is the provider that a spec would run at, with the reasons.
type Placement struct {
	// Chosen is a provider's name, or "" when no provider can.
	Chosen     string      `json:"chosen"`
	Candidates []Candidate `json:"candidates"`
}

// Candidate is one provider that was considered.
type Candidate struct {
	Provider string `json:"provider"`
	OK       bool   `json:"ok"`
	// Why names the missing feature, or reports that none is missing.
	Why  string `json:"why"`
	Hint string `json:"hint,omitempty"`
	kind core.Kind
	// missing has the flags that its capabilities exclude.
	missing []string
}

// Explain reports which provider Launch would choose for spec, without launching. It checks providers in placement
// order. It does not contact providers whose Capabilities exclude the spec.
func (s Sandboxes) Explain(ctx context.Context, spec core.Spec) (Placement, error) {
	spec, defaultLimits, _, err := s.prepare(ctx, spec, true)
	if err != nil {
		return Placement{}, err
	}
	return s.place(ctx, spec, defaultLimits, true)
}

// place checks the providers in order. With all it continues after the first match.
func (s *base) place(ctx context.Context, spec core.Spec, defaultLimits []defaultLimit, all bool) (Placement, error) {
	lazies := s.lazyProviders
	if spec.Provider != "" && spec.Provider != core.ProviderAuto {
		lazy, err := s.provider(spec.Provider)
		if err != nil {
			return Placement{}, err
		}
		lazies = []*lazyProvider{lazy}
	}
	var placement Placement
	for _, lazy := range lazies {
		c := lazy.considerAmong(ctx, len(lazies), spec, defaultLimits)
		placement.Candidates = append(placement.Candidates, c)
		if c.OK && placement.Chosen == "" {
			placement.Chosen = c.Provider
			if !all {
				break
			}
		}
	}
	return placement, nil
}

// considerAmong is consider with a time limit when several providers are considered.
func (l *lazyProvider) considerAmong(
	ctx context.Context, count int, spec core.Spec, defaultLimits []defaultLimit,
) Candidate {
	if count > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, providerTimeout)
		defer cancel()
	}
	return l.consider(ctx, spec, defaultLimits)
}

func (l *lazyProvider) consider(ctx context.Context, spec core.Spec, defaultLimits []defaultLimit) Candidate {
	c := Candidate{Provider: l.factory.Name}
	p, err := l.open()
	if err != nil {
		c.Why, c.Hint, c.kind = err.Error(), core.HintOf(err), core.KindOf(err)
		return c
	}
	fits := func() bool {
		caps := p.Capabilities()
		c.missing = lacks(caps, fit(spec, defaultLimits, caps))
		if len(c.missing) > 0 {
			c.Why, c.kind = "does not support "+strings.Join(c.missing, ", "), core.KindUnsupported
		}
		return len(c.missing) == 0
	}
	if !fits() {
		return c
	}
	if err := p.Check(ctx); err != nil {
		c.Why, c.Hint, c.kind = err.Error(), core.HintOf(err), core.KindOf(err)
		return c
	}
	// A check may have found that it can do less than providers of its kind can.
	if !fits() {
		c.Hint = "sb doctor shows the reason"
		return c
	}
	if finder, ok := p.(core.SnapshotFinder); ok && spec.Snapshot != "" {
		has, err := finder.HasSnapshot(ctx, spec.Snapshot)
		if err == nil && !has {
			err = core.Errorf(core.KindNotFound, "launch", "", "there is no snapshot %q", spec.Snapshot).
				WithHint("sb snapshot ls lists them")
		}
		if err != nil {
			c.Why, c.Hint, c.kind = err.Error(), core.HintOf(err), core.KindOf(err)
			return c
		}
	}
	if spec.Require {
		loose, hint, err := loosely(ctx, p, fit(spec, defaultLimits, p.Capabilities()), defaultLimits)
		if err != nil {
			c.Why, c.Hint, c.kind = err.Error(), core.HintOf(err), core.KindOf(err)
			return c
		}
		if len(loose) > 0 {
			c.Why, c.Hint, c.kind = strings.Join(loose, ", "), hint, core.KindUnsupported
			return c
		}
	}
	c.OK, c.Why = true, "supports all of the spec"
	return c
}

// lacks names the flags that spec requires and the provider does not have.
func lacks(caps core.Capabilities, spec core.Spec) []string {
	var missing []string
	for _, need := range spec.NeededFor() {
		if !caps.Can(need.Capability) {
			missing = append(missing, need.Flag)
		}
	}
	if spec.Ready != nil && spec.Ready.TCP != 0 && !caps.Can(core.CapReady) && !caps.Can(core.CapPortForward) {
		missing = append(missing, "--ready-tcp")
	}
	if spec.Image != "" && !caps.Can(core.CapImages) && !slices.Contains(caps.Images, spec.Image) {
		missing = append(missing, fmt.Sprintf("--image %s (it has %s)", spec.Image, strings.Join(caps.Images, ", ")))
	}
	if most, known := caps.GPUs[spec.GPU.Type]; !spec.GPU.IsZero() && caps.Can(core.CapGPU) && (!known ||
		spec.GPU.Count > most) {
		what := "--gpu " + spec.GPU.String()
		if known {
			what += fmt.Sprintf(" (at most %d)", most)
		} else if near := core.Nearest(spec.GPU.Type, slices.Sorted(maps.Keys(caps.GPUs))); near != "" {
			what += fmt.Sprintf(" (did you mean %s?)", near)
		}
		missing = append(missing, what)
	}
	return missing
}

// refusal returns the error of a launch without a suitable provider.
func (s *base) refusal(p Placement, spec core.Spec, defaultLimits []defaultLimit) error {
	if len(p.Candidates) == 0 {
		return core.Errorf(core.KindUnavailable, "launch", spec.Name, "no provider is configured")
	}
	if only := p.Candidates[0]; len(p.Candidates) == 1 && len(only.missing) > 0 {
		hint := useProvider(s.fitting(spec, defaultLimits))
		return core.Errorf(core.KindUnsupported, "launch", "", "provider %q %s", only.Provider, only.Why).
			WithHint("%s", cmp.Or(only.Hint, hint, providersHint))
	}
	var parts, hints []string
	kind := core.KindUnsupported
	for _, c := range p.Candidates {
		parts = append(parts, c.Provider+": "+c.Why)
		if c.Hint != "" {
			hints = append(hints, c.Hint)
		}
		if c.kind != core.KindUnsupported {
			kind = c.kind
		}
	}
	if len(p.Candidates) > 1 && kind != core.KindUnsupported {
		kind = core.KindUnavailable
	}
	if len(hints) == 0 {
		hints = append(hints, providersHint)
	}
	return core.Errorf(kind, "launch", "", "%s", strings.Join(parts, "; ")).WithHint("%s", strings.Join(hints, "; "))
}

const providersHint = "sb provider ls --json lists what each provider supports"

// fitting returns the providers whose capabilities include the spec, in placement order.
func (s *base) fitting(spec core.Spec, defaultLimits []defaultLimit) []string {
	var names []string
	for _, lazy := range s.lazyProviders {
		p, err := lazy.open()
		if err == nil && len(lacks(p.Capabilities(), fit(spec, defaultLimits, p.Capabilities()))) == 0 {
			names = append(names, lazy.factory.Name)
		}
	}
	return names
}
