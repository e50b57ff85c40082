package core

import (
	"context"
)

// ListFilter selects sandboxes; zero fields select all.
type ListFilter struct {
	Provider string
	App      string
	// Labels must all be present with the same values; an empty value matches any.
	Labels map[string]string
	// All includes dead sandboxes.
	All bool
	// Orphans selects only sandboxes whose owner is gone.
	Orphans bool
}

// ProviderFailure is the error of one provider that did not answer.
type ProviderFailure struct {
	Provider string `json:"provider"`
	Kind     Kind   `json:"kind"`
	Error    string `json:"error"`
	Hint     string `json:"hint,omitempty"`
}

// FilterLister is for providers that can filter on their side.
type FilterLister interface {
	// ListFiltered returns all sandboxes that match the filter, and possibly others. It ignores the filter's Provider.
	ListFiltered(ctx context.Context, filter ListFilter) ([]Sandbox, error)
}

// Matches reports whether sb matches the filter.
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

// Orphaned reports whether the sandbox is lost, or its owner is gone and the sandbox was bound to or renewed by that
// owner.
func (sb Sandbox) Orphaned() bool {
	return sb.State == StateLost || sb.State == StateFailed || (sb.Lease.Bound || sb.Lease.Renewed) &&
		sb.Lease.Owner.Gone()
}
