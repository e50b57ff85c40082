package core

import (
	"cmp"
	"context"
	"slices"
	"time"
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

// Listing is what List found. A provider that failed is in Failures and hides no other.
type Listing struct {
	Sandboxes []Sandbox         `json:"sandboxes"`
	Failures  []ProviderFailure `json:"failures,omitempty"`
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

// remotePatience bounds how long a provider at a distance (Capabilities.Remote) may take when others are asked, too.
const remotePatience = 3 * time.Second

// List asks all providers at once and returns their sandboxes, oldest first. The
// error is for a filter that names no provider; a provider's own failure is in the listing.
// When several are asked, one at a distance is not waited for long.
func (s *Service) List(ctx context.Context, filter ListFilter) (Listing, error) {
	return s.listAll(ctx, filter, remotePatience)
}

// listAll is List with another patience.
func (s *Service) listAll(ctx context.Context, filter ListFilter, patience time.Duration) (Listing, error) {
	asked, err := s.ask(ctx, filter, patience)
	if err != nil {
		return Listing{}, err
	}
	return asked.listing(nil), nil
}

// ListSoon is List for those who show something early: first is what has come before a while is over. The caller calls rest, which waits for
// the other providers and returns theirs.
func (s *Service) ListSoon(ctx context.Context, filter ListFilter, while time.Duration) (first Listing, rest func() Listing, err error) {
	asked, err := s.ask(ctx, filter, remotePatience)
	if err != nil {
		return Listing{}, nil, err
	}
	timer := time.NewTimer(while)
	defer timer.Stop()
	return asked.listing(timer.C), func() Listing { return asked.listing(nil) }, nil
}

// asking is a question to several providers under way.
type asking struct {
	service *Service
	filter  ListFilter
	answers chan answer
	missing int
}

// answer is one provider's.
type answer struct {
	provider string
	found    []Sandbox
	err      error
}

func (s *Service) ask(ctx context.Context, filter ListFilter, patience time.Duration) (*asking, error) {
	lazies := s.lazyProviders
	if filter.Provider != "" {
		lazy, err := s.provider(filter.Provider)
		if err != nil {
			return nil, err
		}
		lazies = []*lazyProvider{lazy}
	}
	a := &asking{service: s, filter: filter, answers: make(chan answer, len(lazies)), missing: len(lazies)}
	for _, lazy := range lazies {
		go func() {
			found, err := lazy.list(ctx, filter, len(lazies) > 1, patience)
			a.answers <- answer{lazy.factory.Name, found, err}
		}()
	}
	return a, nil
}

// list asks one provider.
func (l *lazyProvider) list(ctx context.Context, filter ListFilter, among bool, patience time.Duration) ([]Sandbox, error) {
	p, err := l.open()
	if err != nil {
		return nil, err
	}
	most := providerTimeout
	if among && p.Capabilities().Remote {
		most = patience
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var found []Sandbox
	if lister, ok := As[FilterLister](p); ok {
		found, err = lister.ListFiltered(ctx, filter)
	} else {
		found, err = p.List(ctx)
	}
	if err == nil && len(found) == 0 && filter.Provider != "" {
		err = p.Check(ctx) // one that is not there has no sandboxes either, but whoever asks for it wants to know
	}
	return found, late(ctx, err, "list", l.factory.Name, most)
}

// late is err, or what it means when most is how long ctx let a provider take and that was over.
func late(ctx context.Context, err error, op, provider string, most time.Duration) error {
	if err == nil || ctx.Err() != context.DeadlineExceeded {
		return err
	}
	return Errorf(KindTimeout, op, "", "no answer within %s", most).WithHint("it has longer when it is asked alone: --provider %s", provider)
}

// listing collects answers, until all are there or a moment has come.
func (a *asking) listing(until <-chan time.Time) Listing {
	listing := Listing{Sandboxes: []Sandbox{}}
	for ; a.missing > 0; a.missing-- {
		var got answer
		select {
		case got = <-a.answers:
		case <-until:
			return listing.sorted()
		}
		if got.err != nil {
			listing.Failures = append(listing.Failures, ProviderFailure{got.provider, KindOf(got.err), got.err.Error(), HintOf(got.err)})
			continue
		}
		for _, sb := range got.found {
			if a.service.sees(sb) && a.filter.matches(sb) {
				sb.Cost = a.service.costOf(sb)
				listing.Sandboxes = append(listing.Sandboxes, sb)
			}
		}
	}
	return listing.sorted()
}

// sorted puts the sandboxes in their order, oldest first, and the failures by provider.
func (l Listing) sorted() Listing {
	slices.SortFunc(l.Sandboxes, func(a, b Sandbox) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(l.Failures, func(a, b ProviderFailure) int { return cmp.Compare(a.Provider, b.Provider) })
	return l
}

func (f ListFilter) matches(sb Sandbox) bool {
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
