package core

import (
	"context"
	"fmt"
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
