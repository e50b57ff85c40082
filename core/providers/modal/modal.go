package modal

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal/client"
	"github.com/seed-0724f904/sb/core/providers/modal/files"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
)

// Name is the provider's name.
const Name = "modal"

// IDPrefix is the prefix of the ids of Modal's sandboxes.
const IDPrefix = "sb-"

// Options configure the provider. Credentials and the server are found as Modal's own tools find them.
type Options struct {
	// CacheDir is the directory of cached ids; "" caches none.
	CacheDir string
	// StateDir is the directory of the names of checkpoints; "" disables checkpoints.
	StateDir string
}

// Factory returns the provider's factory.
func Factory(opts Options) core.Factory {
	return core.Factory{Name: Name, IDPrefix: IDPrefix, CheckSpec: modalspec.Check, Open: func() (core.Provider, error) {
		return New(opts), nil
	}}
}

// Provider is a client of Modal. It connects at first use, and all operations share the connection.
type Provider struct {
	*files.Files

	opts Options

	mu     sync.Mutex
	client *client.Client
	// routers are the connections to the machines that run sandboxes, by sandbox id.
	routers map[string]*router
}

// New returns the provider. It does no I/O.
func New(opts Options) *Provider {
	p := &Provider{opts: opts, routers: map[string]*router{}}
	p.Files = files.New(p.programs())
	return p
}

// programs returns the starter of programs for file operations.
func (p *Provider) programs() files.Programs {
	return files.Programs{Start: func(ctx context.Context, id string, spec core.ExecSpec) (files.Process, error) {
		started, err := p.start(ctx, id, spec)
		if err != nil {
			return nil, err
		}
		return started, nil
	}}
}

var (
	_ core.Finder           = (*Provider)(nil)
	_ core.Waiter           = (*Provider)(nil)
	_ core.LogReader        = (*Provider)(nil)
	_ core.Attacher         = (*Provider)(nil)
	_ core.ExecFinder       = (*Provider)(nil)
	_ core.FileSystem       = (*Provider)(nil)
	_ core.Doctor           = (*Provider)(nil)
	_ core.Snapshotter      = (*Provider)(nil)
	_ core.Differ           = (*Provider)(nil)
	_ core.FilterLister     = (*Provider)(nil)
	_ core.Ender            = (*Provider)(nil)
	_ core.Checkpointer     = (*Provider)(nil)
	_ core.CheckpointFinder = (*Provider)(nil)
	_ core.SnapshotStore    = (*Provider)(nil)
	_ core.ImageStore       = (*Provider)(nil)
	_ core.ImageMounter     = (*Provider)(nil)
	_ core.VolumeStore      = (*Provider)(nil)
	_ core.SecretStore      = (*Provider)(nil)
	_ core.AppStore         = (*Provider)(nil)
	_ core.EnvironmentStore = (*Provider)(nil)
	_ core.NetworkPolicer   = (*Provider)(nil)
	_ core.Tunneler         = (*Provider)(nil)
	_ core.ReadyWaiter      = (*Provider)(nil)
	_ core.Enforcer         = (*Provider)(nil)
	_ core.FileWatcher      = (*Provider)(nil)
)

// connect returns the client and creates it at first use. It makes no call.
func (p *Provider) connect() (*client.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		return p.client, nil
	}
	dir := ""
	if p.opts.CacheDir != "" {
		dir = filepath.Join(p.opts.CacheDir, Name)
	}
	made, err := client.Open(dir)
	if err != nil {
		return nil, err
	}
	p.client = made
	return made, nil
}

// Name implements core.Provider.
func (p *Provider) Name() string { return Name }

// Capabilities implements core.Provider.
func (p *Provider) Capabilities() core.Capabilities {
	return core.Capabilities{
		Has: append(core.Implemented(p), core.CapTTY, core.CapPorts, core.CapPortTLS, core.CapInbound, core.CapGPU,
			core.CapVolumes, core.CapBuild, core.CapImages, core.CapNetNone, core.CapNetAll, core.CapNetAllow,
			core.CapCPU, core.CapMemory, core.CapTimeout, core.CapIdle, core.CapModal, core.CapSnapshotTTL,
			core.CapSnapshotPath),
		Images:    []string{defaultImage},
		GPUs:      gpus(),
		Remote:    true,
		Shared:    true,
		Isolation: "Modal: gVisor on a machine in the cloud",
	}
}

// Check implements core.Provider. It makes one call, and none without credentials.
func (p *Provider) Check(ctx context.Context) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	_, err = c.Raw(ctx)
	return client.Classify("check", "", err)
}

// Close implements core.Provider.
func (p *Provider) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, r := range p.routers {
		r.close()
		delete(p.routers, id)
	}
	if p.client != nil {
		p.client.SDK.Close()
		p.client = nil
	}
	return nil
}
