package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Listing is the result of List. Failures has the providers that failed; the others are still listed.
type Listing struct {
	Sandboxes []core.Sandbox         `json:"sandboxes"`
	Failures  []core.ProviderFailure `json:"failures,omitempty"`
}

// remotePatience bounds the time of a remote provider (Capabilities.Remote), if others are listed, too.
const remotePatience = 3 * time.Second

// List lists the sandboxes of all providers concurrently, oldest first. It returns an error only for a filter with an
// unknown provider; other failures are in the listing. If it lists several providers, the wait for a remote one is
// short.
func (s Sandboxes) List(ctx context.Context, filter core.ListFilter) (Listing, error) {
	return s.listAll(ctx, filter, remotePatience)
}

// listAll is List with another time limit.
func (s *base) listAll(ctx context.Context, filter core.ListFilter, patience time.Duration) (Listing, error) {
	answers, err := s.ask(ctx, filter, patience)
	if err != nil {
		return Listing{}, err
	}
	return answers.listing(nil), nil
}

// ListSoon is List for callers that show results early. first has the results after a short wait. The caller calls
// rest, which waits for the other providers and returns their results.
func (s Sandboxes) ListSoon(
	ctx context.Context, filter core.ListFilter, while time.Duration,
) (first Listing, rest func() Listing, err error) {
	answers, err := s.ask(ctx, filter, remotePatience)
	if err != nil {
		return Listing{}, nil, err
	}
	timer := time.NewTimer(while)
	defer timer.Stop()
	return answers.listing(timer.C), func() Listing { return answers.listing(nil) }, nil
}

// asking is a running request to several providers.
type asking struct {
	service *base
	filter  core.ListFilter
	answers chan answer
	missing int
}

// answer is the answer of one provider.
type answer struct {
	provider string
	found    []core.Sandbox
	err      error
}

func (s *base) ask(ctx context.Context, filter core.ListFilter, patience time.Duration) (*asking, error) {
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

// list lists the sandboxes of one provider.
func (l *lazyProvider) list(
	ctx context.Context, filter core.ListFilter, among bool, patience time.Duration,
) ([]core.Sandbox, error) {
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
	var found []core.Sandbox
	if lister, ok := p.(core.FilterLister); ok {
		found, err = lister.ListFiltered(ctx, filter)
	} else {
		found, err = p.List(ctx)
	}
	if err == nil && len(found) == 0 && filter.Provider != "" {
		err = p.Check(ctx) // an absent provider has no sandboxes; it is an error only if the user selects it
	}
	return found, late(ctx, err, "list", l.factory.Name, most)
}

// late replaces err by a timeout error if the deadline of ctx, after most, has passed.
func late(ctx context.Context, err error, op, provider string, most time.Duration) error {
	if err == nil || ctx.Err() != context.DeadlineExceeded {
		return err
	}
	return core.Errorf(core.KindTimeout, op, "", "no answer within %s", most).
		WithHint("to wait longer, use --provider %s", provider)
}

// listing collects answers, until all have arrived or until delivers.
func (a *asking) listing(until <-chan time.Time) Listing {
	listing := Listing{Sandboxes: []core.Sandbox{}}
	for ; a.missing > 0; a.missing-- {
		var got answer
		select {
		case got = <-a.answers:
		case <-until:
			return listing.sorted()
		}
		if got.err != nil {
			listing.Failures = append(listing.Failures, failure(got.provider, got.err))
			continue
		}
		for _, sb := range got.found {
			if a.service.sees(sb) && a.filter.Matches(sb) {
				sb.Cost = a.service.costOf(sb)
				listing.Sandboxes = append(listing.Sandboxes, sb)
			}
		}
	}
	return listing.sorted()
}

// sorted puts the sandboxes in their order, oldest first, and the failures by provider.
func (l Listing) sorted() Listing {
	slices.SortFunc(l.Sandboxes, func(a, b core.Sandbox) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(l.Failures, func(a, b core.ProviderFailure) int { return cmp.Compare(a.Provider, b.Provider) })
	return l
}

// failure reports that a provider did not answer.
func failure(provider string, err error) core.ProviderFailure {
	return core.ProviderFailure{Provider: provider, Kind: core.KindOf(err), Error: err.Error(), Hint: core.HintOf(err)}
}
