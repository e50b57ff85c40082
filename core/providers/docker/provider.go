package docker

import (
	"context"
	"slices"
	"sync"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// Provider uses one engine.
type Provider struct {
	guest.Files
	opts Options

	// connecting is held during the search for the engine, so that only one search runs.
	connecting sync.Mutex
	// mu guards the engine.
	mu     sync.Mutex
	engine containers

	knownMu sync.Mutex
	// known has the facts that later calls to a sandbox need, from its labels.
	known map[string]known

	spareMu sync.Mutex
	// spares has calls that can be reused once, by the sandbox's id. A closed provider adds none.
	spares map[string]*spare
	closed bool
}

// known has the facts that a call to a sandbox's first process needs.
type known struct {
	container string
	// pid is the first process's last seen number on the engine's machine; 0 means unknown.
	pid int
	dir wire.Dir
	// protocol is the wire.Version of the first process.
	protocol int

	key   []byte
	actor string
}

var (
	_ core.Finder       = (*Provider)(nil)
	_ core.Waiter       = (*Provider)(nil)
	_ core.Stopper      = (*Provider)(nil)
	_ core.Pauser       = (*Provider)(nil)
	_ core.Renewer      = (*Provider)(nil)
	_ core.Sizer        = (*Provider)(nil)
	_ core.SecretLister = (*Provider)(nil)
	_ core.Journaler    = (*Provider)(nil)
	_ core.Attacher     = (*Provider)(nil)
	_ core.LogReader    = (*Provider)(nil)
	_ core.FileSystem   = (*Provider)(nil)
	_ core.StatsReader  = (*Provider)(nil)
	_ core.Watcher      = (*Provider)(nil)
	_ core.Doctor       = (*Provider)(nil)
)

// Name implements core.Provider.
func (p *Provider) Name() string { return Name }

// Capabilities implements core.Provider. Before the first answer of the engine, it returns the most that an engine can
// have.
func (p *Provider) Capabilities() core.Capabilities {
	has := append(core.Implemented(p), core.CapTTY, core.CapPorts, core.CapPersist, core.CapUser, core.CapVolumes,
		core.CapImages, core.CapPull,
		core.CapBuild, core.CapNetNone, core.CapNetAll, core.CapNetAllow, core.CapNetInternal, core.CapNetHost,
		core.CapOpenFiles, core.CapReadOnly, core.CapTmpfs, core.CapShmSize, core.CapDNS,
		core.CapTimeout, core.CapNoTimeout, core.CapIdle)
	facts := p.facts()
	for _, limit := range []struct {
		holds bool
		as    core.Capability
	}{
		{facts.CPU, core.CapCPU},
		{facts.Memory, core.CapMemory},
		{facts.Processes, core.CapProcesses},
		{facts.Disk, core.CapDisk},
	} {
		if limit.holds {
			has = append(has, limit.as)
		}
	}
	offered := map[string]int{}
	if gpus := p.opts.GPUs; !gpus.IsZero() {
		has = append(has, core.CapGPU)
		offered[gpus.Type] = gpus.Count
	}
	if inGVisor(p.opts.Runtime) {
		has = slices.DeleteFunc(has, lostInGVisor)
	}
	if inKata(p.opts.Runtime) {
		has = slices.DeleteFunc(has, lostInKata)
	}
	return core.Capabilities{
		Has: has, GPUs: offered, Images: []string{p.opts.Image},
		Isolation: isolation(p.opts.Runtime), Shared: true,
	}
}

// facts returns the engine's facts. Until they are known, it assumes all limits.
func (p *Provider) facts() engine.Facts {
	if e := p.met(); e.Engine != nil {
		if f := e.Facts(); f.Known {
			return f
		}
	}
	return engine.Facts{CPU: true, Memory: true, Processes: true, Disk: true}
}

// Check implements core.Provider.
func (p *Provider) Check(ctx context.Context) error {
	met := p.met().Engine != nil
	e, err := p.connect(ctx)
	if err != nil {
		return err
	}
	if met {
		// The engine answered once, but may be gone now.
		ctx, cancel := engine.Within(ctx, engine.ConnectTimeout)
		defer cancel()
		if _, err := e.Client.Ping(ctx, client.PingOptions{}); err != nil {
			return engine.Classify(ctx, "check", e.At.String(), err)
		}
	}
	if err := p.learn(ctx, e); err != nil {
		return err
	}
	if err := p.refuseRuntime(e); err != nil {
		return err
	}
	_, err = p.guestPath(e.Facts().Arch)
	return err
}

// Close implements core.Provider.
func (p *Provider) Close() error {
	p.closeSpares()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine.Engine == nil {
		return nil
	}
	err := p.engine.Client.Close()
	p.engine = containers{}
	return err
}
