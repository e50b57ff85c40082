package service

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/price"
)

// Options are the options of New.
type Options struct {
	// Factories are the providers in placement order.
	Factories []core.Factory
	// Actor is the frontend, as in Owner.Actor.
	Actor  string
	Quotas Quotas
	// Defaults fill in the open fields of a launch spec.
	Defaults core.Spec
	// Templates finds the template of Spec.Template; nil has none.
	Templates Templates
	// Prices are the prices of providers, by name. A provider without an entry costs nothing.
	Prices map[string]price.Table
	// StateDir is where the audit log is kept; "" keeps none.
	StateDir string
	// HostPaths are the host directories that sandboxes may mount.
	HostPaths HostPaths
	// Logger receives failures that do not belong to an operation's result; nil discards them.
	Logger *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Service is every operation of sb, in groups. All methods may be called at the same time.
type Service struct {
	Sandboxes Sandboxes
	Execs     Execs
	Files     Files
	Ports     Ports
	Stores    Stores
	Policy    Policy
	Providers Providers
	Records   Records
	*base
}

// The groups of a Service.
type (
	// Sandboxes are launched, found, stopped, copied and removed.
	Sandboxes struct{ *base }
	// Execs are the commands in sandboxes.
	Execs struct{ *base }
	// Files are the files in sandboxes. Package transfer copies whole trees with it.
	Files struct{ *base }
	// Ports connects to the ports of sandboxes.
	Ports struct{ *base }
	// Stores manage the objects that providers keep: images, volumes, secrets, environments, snapshots, checkpoints, apps.
	Stores struct{ *base }
	// Policy changes and explains the limits of a sandbox, and how well its provider enforces them.
	Policy struct{ *base }
	// Providers are the configured providers.
	Providers struct{ *base }
	// Records are the history of the operations, its costs, and the events of now.
	Records struct{ *base }
)

// grouped returns a Service with b in all groups.
func grouped(b *base) *Service {
	return &Service{
		Sandboxes{b}, Execs{b}, Files{b}, Ports{b}, Stores{b}, Policy{b}, Providers{b}, Records{b}, b,
	}
}

// base holds the shared state of the groups, and the common steps of their methods.
type base struct {
	lazyProviders []*lazyProvider
	owner         core.Owner // without its ID, see asOwner
	identity      *identity
	quotas        Quotas
	defaults      core.Spec
	templates     Templates
	hostPaths     HostPaths
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
	s := &base{
		owner:     core.CurrentOwner(opts.Actor),
		quotas:    opts.Quotas,
		defaults:  opts.Defaults,
		templates: opts.Templates,
		hostPaths: opts.HostPaths,
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
	return grouped(s)
}

// Close ends subscriptions and closes the providers that were opened. Sandboxes keep running.
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

func (s *base) withDefaults(spec core.Spec) core.Spec {
	spec = spec.Clone()
	fill(&spec.Provider, s.defaults.Provider)
	if spec.Checkpoint != "" {
		return spec // it keeps its fields from the checkpoint
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
