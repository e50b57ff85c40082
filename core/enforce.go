package core

import (
	"context"
	"fmt"
	"strings"
)

// Strength is how well a provider enforces a field of a spec.
type Strength string

const (
	// Full cannot be bypassed from inside the sandbox.
	Full Strength = "full"
	// Partial has the gaps that Enforcement.Gap names.
	Partial Strength = "partial"
	// Unenforced is recorded but has no effect.
	Unenforced Strength = "unenforced"
	// Unknown means that the provider does not report it.
	Unknown Strength = "unknown"
)

// Enforcement is how the provider enforces one field of a spec.
type Enforcement struct {
	// Field is the field's name: "network", "disk".
	Field string `json:"field"`
	// Value is the field's value: "allow pypi.org".
	Value    string   `json:"value"`
	Strength Strength `json:"strength"`
	// How names the mechanism. Gap describes the limits of its coverage; it is empty if Strength is Full.
	How string `json:"how"`
	Gap string `json:"gap,omitempty"`
	// Default means that the value comes from the configuration, not from the launch. Only ExplainPolicy sets it.
	Default bool `json:"default,omitempty"`
}

// Enforcer reports how well the provider enforces a spec. Its capability is CapEnforce.
type Enforcer interface {
	// Enforcement reports how each limit and policy in spec is enforced. It covers at least the fields of EnforcedFields
	// that spec sets. id is the sandbox of spec; "" means a future launch. The result is measured, not assumed. It comes
	// from the running sandbox, from the engine, or from a trial of the launch's steps. spec requires no capability that
	// the provider lacks.
	Enforcement(ctx context.Context, id string, spec Spec) ([]Enforcement, error)
}

// EnforcedFields returns the fields of a spec that limit the sandbox's processes, with their values as text.
func (s Spec) EnforcedFields() []Enforcement {
	var list []Enforcement
	add := func(field string, set bool, value any) {
		if set {
			list = append(list, Enforcement{Field: field, Value: fmt.Sprint(value)})
		}
	}
	for _, f := range Fields() {
		add(f.Name, f.Limit && !f.IsZero(s) && f.Value(s) != any(NoTimeout), f.Value(s))
	}
	add("network", s.Network.Mode != NetworkDefault, strings.TrimSpace(string(s.Network.Mode)+
		" "+strings.Join(s.Network.Allow, " ")))
	add("inbound", len(s.Inbound) > 0, strings.Join(s.Inbound, " "))
	for _, v := range s.Volumes {
		add("volumes", v.ReadOnly, v.Source+" read-only")
	}
	return list
}
