package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// Inventory is the list of one kind of object that providers store: volumes, secrets, images. Failures has the
// providers that failed; the others are still listed.
type Inventory[T any] struct {
	Items    []T                    `json:"items"`
	Failures []core.ProviderFailure `json:"failures,omitempty"`
}

// inventory is gather for objects that all users of a provider share.
func inventory[S, T any](
	ctx context.Context, s *base, provider, op string, list func(S, context.Context) ([]T, error),
) (Inventory[T], error) {
	if err := s.shared(op); err != nil {
		return Inventory[T]{}, err
	}
	return gather(ctx, s, provider, op, list)
}

// gather lists the objects of all providers with the optional interface S, concurrently, in placement order.
// KindUnsupported: the named provider does not have it. A named provider that cannot be used is in Failures. Without a
// name, providers that were never set up have no objects.
func gather[S, T any](
	ctx context.Context, s *base, provider, op string, list func(S, context.Context) ([]T, error),
) (Inventory[T], error) {
	want := core.CapabilityOf[S]()
	names := s.able(want)
	if provider != "" {
		if caps, err := (Providers{s}).Capabilities(provider); err != nil {
			return Inventory[T]{}, err
		} else if !caps.Can(want) {
			return Inventory[T]{}, s.unsupportedAt(provider, op, want)
		}
		names = []string{provider}
	}
	found := make([][]T, len(names))
	failed := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			most := providerTimeout
			if caps, err := (Providers{s}).Capabilities(name); err == nil && caps.Remote && len(names) > 1 {
				most = remotePatience
			}
			ctx, cancel := context.WithTimeout(ctx, most)
			defer cancel()
			store, err := capable[S](s, name, op)
			if err == nil {
				found[i], err = list(store, ctx)
			}
			if err == nil && len(found[i]) == 0 && provider != "" {
				err = s.usable(ctx, name)
			}
			failed[i] = late(ctx, err, op, name, most)
		})
	}
	wg.Wait()
	all := Inventory[T]{Items: []T{}}
	for i, name := range names {
		if err := failed[i]; err != nil {
			all.Failures = append(all.Failures, failure(name, err))
			continue
		}
		all.Items = append(all.Items, found[i]...)
	}
	return all, nil
}

// stored runs one recorded operation on a provider's stored objects.
func stored[S any](
	ctx context.Context, s *base, provider, op, subject string, args map[string]any, do func(S) error,
) (err error) {
	record := s.begin(op, subject)
	record.Args = args
	defer func() { s.finish(record, err) }()
	if err := s.shared(op); err != nil {
		return err
	}
	if subject == "" || subject[0] == '-' || core.HasControl(subject) {
		return core.Invalid("name", "%q is not a valid name", subject)
	}
	want := core.CapabilityOf[S]()
	if provider, err = s.keeper(ctx, provider, op, want); err != nil {
		return err
	}
	record.Provider = provider
	if caps, err := (Providers{s}).Capabilities(provider); err == nil && !caps.Can(want) {
		return s.unsupportedAt(provider, op, want)
	}
	store, err := capable[S](s, provider, op)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return core.Wrap(op, subject, err)
	}
	if err = do(store); errors.Is(err, core.KindNotFound) {
		// A provider that was never set up has no objects. The error gives the user the reason.
		if unusable := s.usable(ctx, provider); unusable != nil {
			err = unusable
		}
	}
	return core.Wrap(op, subject, err)
}

// usable returns why a provider cannot be used, or nil.
func (s *base) usable(ctx context.Context, provider string) error {
	lazy, err := s.provider(provider)
	if err != nil {
		return err
	}
	p, err := lazy.open()
	if err != nil {
		return err
	}
	return p.Check(ctx)
}

// able names the providers that have a capability, in placement order.
func (s *base) able(want core.Capability) []string {
	var names []string
	for _, lazy := range s.lazyProviders {
		if p, err := lazy.open(); err == nil && p.Capabilities().Can(want) {
			names = append(names, lazy.factory.Name)
		}
	}
	return names
}

// keeper chooses the provider of an operation. It is the named one, else the configured one if it has the feature, else
// the only one with the feature. It ignores providers that are not set up, but not those that are down.
func (s *base) keeper(ctx context.Context, provider, op string, want core.Capability) (string, error) {
	if provider != "" {
		return provider, nil
	}
	names := s.able(want)
	if slices.Contains(names, s.defaults.Provider) {
		return s.defaults.Provider, nil
	}
	if len(names) > 1 {
		able := strings.Join(names, ", ")
		if names = s.setUp(ctx, names); len(names) == 0 {
			return "", core.Errorf(core.KindUnavailable, op, "", "none of %s is set up", able).
				WithHint("sb doctor shows what they need")
		}
	}
	switch len(names) {
	case 0:
		return "", core.Errorf(core.KindUnsupported, op, "", "no provider supports %q", op)
	case 1:
		return names[0], nil
	}
	return "", core.Errorf(core.KindUsage, op, "", "several providers support %q", op).WithHint("%s", useProvider(names))
}

// setUp returns the names of the providers that are set up. It checks them concurrently.
func (s *base) setUp(ctx context.Context, names []string) []string {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	absent := make([]bool, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			_, absent[i] = errors.AsType[core.NotSetUp](s.usable(ctx, name))
		})
	}
	wg.Wait()
	var up []string
	for i, name := range names {
		if !absent[i] {
			up = append(up, name)
		}
	}
	return up
}

// shared refuses stored objects under a scope: they have no owner to check.
func (s *base) shared(op string) error {
	own := s.scope.VolumePrefix != "" && slices.Contains([]string{"volume ls", "volume create", "volume rm"}, op)
	if len(s.scope.Labels) == 0 || own {
		return nil
	}
	return core.Errorf(
		core.KindUnauthorized, op, "", "objects stored at a provider belong to all of its users, and cannot be accessed here",
	)
}
