package fake

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Options configure a fake provider. The zero value is a provider named "fake".
type Options struct {
	// Name is the provider's name; "" is "fake".
	Name string
	// IDPrefix begins the sandboxes' ids; "" is "fak-".
	IDPrefix string
	// Images are the names that a launch accepts; nil is "host".
	Images []string
	// Also lists capabilities that are reported and accepted in a spec but not enforced: core.CapCPU, core.CapPorts and
	// the like.
	Also []core.Capability
	// GPUs are the GPUs in Capabilities, with core.CapGPU.
	GPUs map[string]int
	// GPUPrices are their prices in Capabilities.
	GPUPrices map[string]string
	// Programs are added to every sandbox's /usr/bin, beside the usual ones.
	Programs map[string]Program
	// LogLimit bounds the kept output of each command; 0 is 1 MiB.
	LogLimit core.Bytes
	// Now is the clock of records; nil is time.Now. Timers run in real time.
	Now func() time.Time
}

// Provider is a core.Provider in memory. As with any provider, Close leaves its sandboxes running, so several openers
// can share one value. Shutdown ends them.
type Provider struct {
	opts     Options
	faults   faults
	events   *eventLog
	programs map[string]Program

	mu        sync.Mutex
	boxes     map[string]*box
	order     []*box
	leftovers []core.Leftover
	kept      map[string]*kept
	snapshots map[string]*snapshot
}

// New makes a provider without sandboxes.
func New(opts Options) *Provider {
	if opts.Name == "" {
		opts.Name = "fake"
	}
	if opts.IDPrefix == "" {
		opts.IDPrefix = "fak-"
	}
	if opts.Images == nil {
		opts.Images = []string{"host"}
	}
	if opts.LogLimit == 0 {
		opts.LogLimit = core.MiB
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	programs := standardPrograms()
	maps.Copy(programs, opts.Programs)
	return &Provider{
		opts: opts, events: newEventLog(), programs: programs, boxes: map[string]*box{}, kept: map[string]*kept{},
		snapshots: map[string]*snapshot{},
	}
}

// Factory returns a factory of the provider for a core.Service.
func (p *Provider) Factory() core.Factory {
	return core.Factory{Name: p.opts.Name, IDPrefix: p.opts.IDPrefix, Open: func() (core.Provider, error) {
		return p, nil
	}}
}

// Shutdown ends every sandbox and waits for the goroutines of their commands. A test calls it at its end.
func (p *Provider) Shutdown() {
	for _, b := range p.all() {
		b.end(core.StateExited, core.ReasonStopped, "the provider was shut down", nil)
		b.wait()
	}
}

// Name implements core.Provider.
func (p *Provider) Name() string { return p.opts.Name }

// Capabilities implements core.Provider.
func (p *Provider) Capabilities() core.Capabilities {
	has := append(core.Implemented(p), core.CapTTY, core.CapPersist, core.CapUser, core.CapNetNone,
		core.CapMemory, core.CapDisk, core.CapTimeout, core.CapNoTimeout, core.CapIdle)
	for _, also := range p.opts.Also {
		if !slices.Contains(has, also) {
			has = append(has, also)
		}
	}
	return core.Capabilities{
		Has: has, Images: p.opts.Images, GPUs: p.opts.GPUs, GPUPrices: p.opts.GPUPrices,
		Isolation: "none: it runs in this process's memory",
	}
}

// Check implements core.Provider.
func (p *Provider) Check(ctx context.Context) error { return p.faults.meet(ctx, OpCheck) }

// Close implements core.Provider. It holds nothing.
func (p *Provider) Close() error { return nil }

// Diagnose implements core.Doctor.
func (p *Provider) Diagnose(ctx context.Context) []core.Finding {
	if err := p.Check(ctx); err != nil {
		return []core.Finding{{Name: "memory", Status: "error", Detail: err.Error(), Fix: core.HintOf(err)}}
	}
	return []core.Finding{{Name: "memory", Status: "ok"}}
}

// box returns a sandbox by its id.
func (p *Provider) box(id string) (*box, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, ok := p.boxes[id]; ok {
		return b, nil
	}
	return nil, core.Errorf(core.KindNotFound, "fake", id, "there is no sandbox %q", id).WithHint("sb ls --all lists them")
}

func (p *Provider) all() []*box {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.order)
}
