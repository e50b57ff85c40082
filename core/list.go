package core

import (
	"context"
)

// ListFilter selects sandboxes; zero fields select all.
type ListFilter struct {
	Provider string
	App      string
	// Labels must all be there with the same values; an empty value fits any.
	Labels map[string]string
	// All includes the dead ones.
	All bool
	// Orphans keeps only those whose owner is gone.
	Orphans bool
}

// ProviderFailure says why one provider did not answer.
type ProviderFailure struct {
	Provider string `json:"provider"`
	Kind     Kind   `json:"kind"`
	Error    string `json:"error"`
	Hint     string `json:"hint,omitempty"`
}

// FilterLister lists less than all where the provider can ask for less.
type FilterLister interface {
	// ListFiltered returns all sandboxes that the filter fits, and perhaps others. Its Provider is not looked at.
	ListFiltered(ctx context.Context, filter ListFilter) ([]Sandbox, error)
}

// Matches reports whether the filter lets a sandbox pass.
func (f ListFilter) Matches(sb Sandbox) bool {
	if f.App != "" && sb.App != f.App || f.Orphans && !sb.Orphaned() || !f.All && !f.Orphans && !sb.State.Live() {
		return false
	}
	for key, value := range f.Labels {
		have, ok := sb.Labels[key]
		if !ok || value != "" && have != value {
			return false
		}
	}
	return true
}

// Orphaned says whether nobody is left who needs the sandbox: its owner is gone
// and it was bound to them or renewed by them, or it is lost.
func (sb Sandbox) Orphaned() bool {
	return sb.State == StateLost || sb.State == StateFailed || (sb.Lease.Bound || sb.Lease.Renewed) && sb.Lease.Owner.Gone()
}
