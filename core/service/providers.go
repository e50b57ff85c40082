package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// ProviderStatus is the status of one provider.
type ProviderStatus struct {
	Name         string            `json:"name"`
	Capabilities core.Capabilities `json:"capabilities"`
	// Usable reports whether sandboxes can be launched there now. If not, Error and Hint have the reason.
	Usable bool `json:"usable"`
	// NotSetUp means that the provider is unusable because it was never set up. That is a fault only if the user selects
	// it.
	NotSetUp bool           `json:"not_set_up,omitempty"`
	Error    string         `json:"error,omitempty"`
	Hint     string         `json:"hint,omitempty"`
	Findings []core.Finding `json:"findings,omitempty"`
}

// List returns the status of every provider, in placement order. It checks them concurrently. With findings it checks
// more, which takes longer.
func (s Providers) List(ctx context.Context, findings bool) []ProviderStatus {
	statuses := make([]ProviderStatus, len(s.lazyProviders))
	var wg sync.WaitGroup
	for i, lazy := range s.lazyProviders {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, providerTimeout)
			defer cancel()
			statuses[i] = s.priced(lazy.status(ctx, findings))
		})
	}
	wg.Wait()
	return statuses
}

// Names returns the names of the configured providers in placement order.
func (s Providers) Names() []string {
	names := make([]string, len(s.lazyProviders))
	for i, lazy := range s.lazyProviders {
		names[i] = lazy.factory.Name
	}
	return names
}

// Capabilities returns a provider's capabilities, without a check that it is usable.
func (s Providers) Capabilities(name string) (core.Capabilities, error) {
	lazy, err := s.provider(name)
	if err != nil {
		return core.Capabilities{}, err
	}
	p, err := lazy.open()
	if err != nil {
		return core.Capabilities{}, err
	}
	return p.Capabilities(), nil
}

// Status is List for one provider. KindUsage: there is no provider of that name.
func (s Providers) Status(ctx context.Context, name string, findings bool) (ProviderStatus, error) {
	lazy, err := s.provider(name)
	if err != nil {
		return ProviderStatus{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	return s.priced(lazy.status(ctx, findings)), nil
}

// priced adds the prices of GPUs, unless the provider reports them.
func (s *base) priced(status ProviderStatus) ProviderStatus {
	if prices, ok := s.prices[status.Name]; ok && status.Capabilities.GPUPrices == nil {
		status.Capabilities.GPUPrices = prices.GPUPrices()
	}
	return status
}

func (l *lazyProvider) status(ctx context.Context, findings bool) ProviderStatus {
	st := ProviderStatus{Name: l.factory.Name}
	p, err := l.open()
	if err == nil {
		st.Capabilities = p.Capabilities()
		st.Capabilities.Has = slices.Clone(st.Capabilities.Has)
		err = p.Check(ctx)
		if doctor, ok := p.(core.Doctor); ok && findings {
			st.Findings = doctor.Diagnose(ctx)
		}
	}
	st.Usable = err == nil
	if err != nil {
		st.Error, st.Hint = err.Error(), core.HintOf(err)
		_, st.NotSetUp = errors.AsType[core.NotSetUp](err)
	}
	return st
}

// lazyProvider opens a provider once, on first use.
type lazyProvider struct {
	factory  core.Factory
	mu       sync.Mutex
	provider core.Provider
	err      error
}

func (l *lazyProvider) open() (core.Provider, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.provider == nil && l.err == nil {
		l.provider, l.err = l.factory.Open()
	}
	return l.provider, l.err
}

func (l *lazyProvider) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.provider == nil {
		return nil
	}
	return l.provider.Close()
}

// provider finds a configured provider by name.
func (s *base) provider(name string) (*lazyProvider, error) {
	var names []string
	for _, lazy := range s.lazyProviders {
		if lazy.factory.Name == name {
			return lazy, nil
		}
		names = append(names, lazy.factory.Name)
	}
	return nil, core.Errorf(core.KindUsage, "provider", name, "there is no provider %q", name).
		WithHint("the providers are %s", strings.Join(names, ", "))
}

// capable opens a provider and returns it as the optional interface T.
func capable[T any](s *base, provider, op string) (T, error) {
	var zero T
	lazy, err := s.provider(provider)
	if err != nil {
		return zero, err
	}
	p, err := lazy.open()
	if err != nil {
		return zero, err
	}
	if t, ok := core.Optional[T](p); ok {
		return t, nil
	}
	return zero, s.unsupported(provider, op, "", core.CapabilityOf[T]())
}
