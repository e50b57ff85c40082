package service

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

// PolicyExplanation is how well one provider would enforce a spec.
type PolicyExplanation struct {
	Provider    string             `json:"provider"`
	Enforcement []core.Enforcement `json:"enforcement"`
}

// Enforcement reports how well the limits of a sandbox are enforced. For one that has ended, it reports how they would
// be if it started now.
func (s Policy) Enforcement(ctx context.Context, ref string) ([]core.Enforcement, error) {
	sb, p, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	id := ""
	if sb.State.Live() {
		id = sb.ID
	}
	list, err := enforcement(ctx, p, id, sb.Spec)
	return list, core.Wrap("policy show", ref, err)
}

// Explain reports how well each provider that can launch spec would enforce it, without launching. If
// spec.Provider is set, it reports only that provider. KindUnsupported: none can launch it.
func (s Policy) Explain(ctx context.Context, spec core.Spec) ([]PolicyExplanation, error) {
	requested, defaultLimits, _, err := s.prepare(ctx, spec, true)
	if err != nil {
		return nil, err
	}
	placement, err := s.place(ctx, requested, defaultLimits, true)
	if err != nil {
		return nil, err
	}
	if placement.Chosen == "" {
		return nil, s.refusal(placement, requested, defaultLimits)
	}
	var explained []PolicyExplanation
	for _, candidate := range placement.Candidates {
		if !candidate.OK {
			continue
		}
		lazy, err := s.provider(candidate.Provider)
		if err != nil {
			return nil, err
		}
		p, err := lazy.open()
		if err != nil {
			return nil, err
		}
		list, err := enforcement(ctx, p, "", fit(requested, defaultLimits, p.Capabilities()))
		if err != nil {
			return nil, core.Wrap("policy explain", candidate.Provider, err)
		}
		for i, e := range list {
			list[i].Default = byDefault(defaultLimits, e.Field)
		}
		explained = append(explained, PolicyExplanation{candidate.Provider, list})
	}
	return explained, nil
}

// enforcement returns how a provider enforces a spec. Fields that the provider does not report are unknown.
func enforcement(ctx context.Context, p core.Provider, id string, spec core.Spec) ([]core.Enforcement, error) {
	var list []core.Enforcement
	if enforcer, ok := core.Optional[core.Enforcer](p); ok {
		var err error
		if list, err = enforcer.Enforcement(ctx, id, spec); err != nil {
			return nil, err
		}
	}
	for _, requested := range spec.EnforcedFields() {
		if !slices.ContainsFunc(list, func(e core.Enforcement) bool { return e.Field == requested.Field }) {
			requested.Strength, requested.Gap = core.Unknown, "the provider does not report how it is enforced"
			list = append(list, requested)
		}
	}
	return list, nil
}

// byDefault reports whether a field's value comes from the defaults.
func byDefault(defaultLimits []defaultLimit, field string) bool {
	return slices.ContainsFunc(defaultLimits, func(l defaultLimit) bool { return string(l.need) == field })
}

// loosely returns the fields of a spec that a provider would not fully enforce, and a hint for the user.
func loosely(
	ctx context.Context, p core.Provider, spec core.Spec, defaultLimits []defaultLimit,
) (loose []string, hint string, err error) {
	list, err := enforcement(ctx, p, "", spec)
	hint = "sb policy explain shows the gaps; a launch without --require accepts them"
	for _, e := range list {
		if e.Strength == core.Full {
			continue
		}
		field := e.Field
		if byDefault(defaultLimits, e.Field) {
			field += ", a default of " + e.Value + ","
			hint += fmt.Sprintf("; sb config set defaults.%s 0 removes the default", e.Field)
		}
		loose = append(loose, fmt.Sprintf("does not hold %s fully (%s)", field, e.Gap))
	}
	return loose, hint, err
}
