package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/price"
)

// Options is what a Service is made of.
type Options struct {
	// Factories are the providers in placement order.
	Factories []core.Factory
	// Actor is the frontend, as in Owner.Actor.
	Actor  string
	Quotas Quotas
	// Defaults fill in what a launch spec leaves open.
	Defaults core.Spec
	// Templates finds what Spec.Template names; nil knows none.
	Templates Templates
	// Prices are what providers charge, by their names. One that is not there costs nothing.
	Prices map[string]price.Table
	// StateDir is where the audit log is kept; "" keeps none.
	StateDir string
	// Logger receives failures that do not belong to an operation's result; nil discards them.
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Service is every operation of sb. Its methods may be called at the same time
// from several goroutines. Each returns an *Error or nil.
type Service struct {
	lazyProviders []*lazyProvider
	owner         core.Owner // without its ID, see asOwner
	identity      *identity
	quotas        Quotas
	defaults      core.Spec
	templates     Templates
	prices        map[string]price.Table
	audit         *auditLog
	broker        *broker
	log           *slog.Logger
	now           func() time.Time
	// underWay has the sources of the moves that this process is about; views share it.
	underWay *sync.Map
	// scope narrows this view of the service; see Within.
	scope Scope
}

// New makes a Service. It does no I/O beyond looking at this process; providers are opened when they are first needed.
func New(opts Options) *Service {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Service{
		owner:     core.CurrentOwner(opts.Actor),
		quotas:    opts.Quotas,
		defaults:  opts.Defaults,
		templates: opts.Templates,
		broker:    newBroker(),
		log:       opts.Logger,
		now:       opts.Now,
		prices:    opts.Prices,
		underWay:  &sync.Map{},
		identity:  &identity{dir: opts.StateDir},
	}
	if opts.StateDir != "" {
		s.audit = &auditLog{dir: opts.StateDir, pid: os.Getpid()}
	}
	for _, f := range opts.Factories {
		s.lazyProviders = append(s.lazyProviders, &lazyProvider{factory: f})
	}
	return s
}

// Close ends subscriptions and closes the providers that were opened. Sandboxes go on.
func (s *Service) Close() error {
	s.broker.close()
	var first error
	for _, lazy := range s.lazyProviders {
		if err := lazy.close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// lazyProvider opens a provider once, when it is first needed.
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
func (s *Service) provider(name string) (*lazyProvider, error) {
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
func capable[T any](s *Service, provider, op string) (T, error) {
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

func (s *Service) withDefaults(spec core.Spec) core.Spec {
	spec = spec.Clone()
	fill(&spec.Provider, s.defaults.Provider)
	if spec.Checkpoint != "" {
		return spec // it has what it had when it was kept
	}
	for _, f := range core.Fields() {
		f.Fill(&spec, s.defaults)
	}
	return spec
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// ProviderStatus is the status of one provider.
type ProviderStatus struct {
	Name         string            `json:"name"`
	Capabilities core.Capabilities `json:"capabilities"`
	// Usable reports whether sandboxes can be launched there now. If not, Error and Hint have the reason.
	Usable bool `json:"usable"`
	// NotSetUp means that it is unusable because it was never set up. That is no fault unless the user wants to use it.
	NotSetUp bool           `json:"not_set_up,omitempty"`
	Error    string         `json:"error,omitempty"`
	Hint     string         `json:"hint,omitempty"`
	Findings []core.Finding `json:"findings,omitempty"`
}

// Providers asks every provider, all at once, whether it is usable. With findings
// it looks closer, which takes longer. The result is in placement order.
func (s *Service) Providers(ctx context.Context, findings bool) []ProviderStatus {
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

// ProviderNames returns the names of the configured providers in placement order.
func (s *Service) ProviderNames() []string {
	names := make([]string, len(s.lazyProviders))
	for i, lazy := range s.lazyProviders {
		names[i] = lazy.factory.Name
	}
	return names
}

// Capabilities returns what a provider can do, without asking whether it is usable.
func (s *Service) Capabilities(name string) (core.Capabilities, error) {
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

// ProviderStatus is Providers for one of them. KindUsage: there is no provider of that name.
func (s *Service) ProviderStatus(ctx context.Context, name string, findings bool) (ProviderStatus, error) {
	lazy, err := s.provider(name)
	if err != nil {
		return ProviderStatus{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	return s.priced(lazy.status(ctx, findings)), nil
}

// priced adds what GPUs cost, unless the provider tells that itself.
func (s *Service) priced(status ProviderStatus) ProviderStatus {
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
