package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Strength says how well a provider holds what a spec asks for.
type Strength string

const (
	// Full holds against what runs in the sandbox.
	Full Strength = "full"
	// Partial holds with gaps that Enforcement.Gap names.
	Partial Strength = "partial"
	// Unenforced is only written down.
	Unenforced Strength = "unenforced"
	// Unknown is what the provider does not tell.
	Unknown Strength = "unknown"
)

// Enforcement says how one field of a spec is held.
type Enforcement struct {
	// Field is the spec's: "network", "disk".
	Field string `json:"field"`
	// Asked is the field's value: "allow pypi.org".
	Asked    string   `json:"asked"`
	Strength Strength `json:"strength"`
	// How says what holds it; Gap what it lets through, unless it is Full.
	How string `json:"how"`
	Gap string `json:"gap,omitempty"`
	// Default says that the launch did not name the field: its value comes from the configuration. Spec.Require leaves it out.
	// It is set by ExplainPolicy alone.
	Default bool `json:"default,omitempty"`
}

// Enforcer tells how well it holds a spec. Its capability is CapEnforce.
type Enforcer interface {
	// Enforcement reports how each limit and policy in spec is held: at least those fields of EnforcedFields that spec
	// sets. id is the sandbox that spec belongs to; "" asks for a sandbox that a launch would start now. The answer is
	// measured, not assumed: it comes from the running sandbox, from the engine, or from trying what a launch would do.
	// spec asks for nothing that Capabilities excludes.
	Enforcement(ctx context.Context, id string, spec Spec) ([]Enforcement, error)
}

// EnforcedFields returns the fields of a spec that limit what runs in the sandbox, with their values as text.
func (s Spec) EnforcedFields() []Enforcement {
	var list []Enforcement
	add := func(field string, set bool, asked any) {
		if set {
			list = append(list, Enforcement{Field: field, Asked: fmt.Sprint(asked)})
		}
	}
	add("cpu", s.CPU != 0, s.CPU)
	add("memory", s.Memory != 0, s.Memory)
	add("disk", s.Disk != 0, s.Disk)
	add("processes", s.Processes != 0, s.Processes)
	add("open_files", s.OpenFiles != 0, s.OpenFiles)
	add("timeout", s.Timeout > 0, s.Timeout)
	add("idle_timeout", s.IdleTimeout > 0, s.IdleTimeout)
	add("network", s.Network.Mode != NetworkDefault, strings.TrimSpace(string(s.Network.Mode)+" "+strings.Join(s.Network.Allow, " ")))
	add("inbound", len(s.Inbound) > 0, strings.Join(s.Inbound, " "))
	for _, v := range s.Volumes {
		add("volumes", v.ReadOnly, v.Source+" read-only")
	}
	return list
}

// PolicyExplanation says how well one provider would hold a spec.
type PolicyExplanation struct {
	Provider    string        `json:"provider"`
	Enforcement []Enforcement `json:"enforcement"`
}

// Enforcement says how well the limits of a sandbox are held: of one that has ended, how they would be if it was started now.
func (s *Service) Enforcement(ctx context.Context, ref string) ([]Enforcement, error) {
	sb, p, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	id := ""
	if sb.State.Live() {
		id = sb.ID
	}
	list, err := enforcement(ctx, p, id, sb.Spec)
	return list, Wrap("policy show", ref, err)
}

// ExplainPolicy says how well each provider that can launch spec would hold it, without launching; with
// spec.Provider only that one. KindUnsupported: none can launch it.
func (s *Service) ExplainPolicy(ctx context.Context, spec Spec) ([]PolicyExplanation, error) {
	asked, wishes, _, err := s.prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	placement, err := s.place(ctx, asked, wishes, true)
	if err != nil {
		return nil, err
	}
	if placement.Chosen == "" {
		return nil, placement.refusal("")
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
		list, err := enforcement(ctx, p, "", fit(asked, wishes, p.Capabilities()))
		if err != nil {
			return nil, Wrap("policy explain", candidate.Provider, err)
		}
		for i, e := range list {
			list[i].Default = slices.ContainsFunc(wishes, func(w wish) bool { return string(w.need) == e.Field })
		}
		explained = append(explained, PolicyExplanation{candidate.Provider, list})
	}
	return explained, nil
}

// enforcement asks a provider how it holds a spec. What it says nothing of is unknown.
func enforcement(ctx context.Context, p Provider, id string, spec Spec) ([]Enforcement, error) {
	var told []Enforcement
	if enforcer, ok := As[Enforcer](p); ok && p.Capabilities().Can(CapEnforce) {
		var err error
		if told, err = enforcer.Enforcement(ctx, id, spec); err != nil {
			return nil, err
		}
	}
	for _, asked := range spec.EnforcedFields() {
		if !slices.ContainsFunc(told, func(e Enforcement) bool { return e.Field == asked.Field }) {
			asked.Strength, asked.Gap = Unknown, "the provider does not tell how it is held"
			told = append(told, asked)
		}
	}
	return told, nil
}

// loosely names what of a spec a provider would not hold fully.
func loosely(ctx context.Context, p Provider, spec Spec) ([]string, error) {
	list, err := enforcement(ctx, p, "", spec)
	var names []string
	for _, e := range list {
		if e.Strength != Full {
			names = append(names, fmt.Sprintf("does not hold %s fully (%s)", e.Field, e.Gap))
		}
	}
	return names, err
}
