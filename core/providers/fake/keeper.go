package fake

import (
	"net"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

// Keeper is a Provider with the features of engines and clouds: volumes, secrets, images, apps, environments,
// snapshots, network policies, tunnels and ports.
type Keeper struct {
	*Provider

	opts KeeperOptions
	store
}

// KeeperOptions configure a Keeper.
type KeeperOptions struct {
	// Serve answers connections to ports inside sandboxes. A function returns when the connection is over, and does not
	// close it.
	Serve map[int]func(net.Conn)
	// Weak names fields of a spec that Enforcement reports as unenforced.
	Weak []string
}

var (
	_ core.Snapshotter      = (*Keeper)(nil)
	_ core.SnapshotStore    = (*Keeper)(nil)
	_ core.Differ           = (*Keeper)(nil)
	_ core.ImageMounter     = (*Keeper)(nil)
	_ core.VolumeStore      = (*Keeper)(nil)
	_ core.SecretStore      = (*Keeper)(nil)
	_ core.ImageStore       = (*Keeper)(nil)
	_ core.ImageBuilder     = (*Keeper)(nil)
	_ core.AppStore         = (*Keeper)(nil)
	_ core.EnvironmentStore = (*Keeper)(nil)
	_ core.NetworkPolicer   = (*Keeper)(nil)
	_ core.Tunneler         = (*Keeper)(nil)
	_ core.PortForwarder    = (*Keeper)(nil)
	_ core.Enforcer         = (*Keeper)(nil)
)

// NewKeeper makes a keeper without sandboxes, with one environment, "main".
func NewKeeper(opts Options, more KeeperOptions) *Keeper {
	return &Keeper{Provider: New(opts), opts: more, store: newStore()}
}

// Factory returns a factory of the keeper for a core.Service.
func (k *Keeper) Factory() core.Factory {
	factory := k.Provider.Factory()
	factory.Open = func() (core.Provider, error) { return k, nil }
	return factory
}

// Capabilities implements core.Provider.
func (k *Keeper) Capabilities() core.Capabilities {
	caps := k.Provider.Capabilities()
	caps.Has = append(append(caps.Has, core.Implemented(k)...), core.CapSnapshotTTL, core.CapSnapshotPath,
		core.CapNetAll, core.CapNetAllow, core.CapNetInternal, core.CapPorts)
	slices.Sort(caps.Has)
	caps.Has = slices.Compact(caps.Has)
	return caps
}
