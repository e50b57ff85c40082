package docker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// labelNetwork is on an app's internal network and on the containers in it: the network's name.
const labelNetwork = "sb.network"

// nowhere is an address that is reserved for documentation (RFC 5737).
const nowhere = "192.0.2.1"

// internalName returns the name of the internal network that an owner's sandboxes of one app share.
func internalName(app string, owner core.Owner) string {
	name := "sb-net-" + cmp.Or(app, "default")
	if owner.ID != "" {
		name += "." + owner.ID
	}
	return name
}

// internal returns an internal network by its name, and creates it if needed. It refuses a network that sb did not
// create.
func (p *Provider) internal(ctx context.Context, e containers, name string) (network.Network, error) {
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for try := 1; ; try++ {
		found, err := e.networksNamed(ctx, name)
		if err == nil && len(found) == 0 {
			err = e.makeInternal(ctx, name)
		}
		switch {
		case len(found) > 0 && (found[0].Labels[labelNetwork] != name || !found[0].Internal):
			return network.Network{}, core.Errorf(
				core.KindUnauthorized, "docker.launch", name, "the engine's network %s was not created by sb", name,
			).
				WithHint("remove it, or choose another app")
		case len(found) > 0:
			return found[0], nil
		case err != nil && (try == networkTries || !errdefs.IsConflict(err) && !errdefs.IsPermissionDenied(err)):
			return network.Network{}, engine.Classify(ctx, "launch", name, err)
		}
		// Another process creates the network, or has just removed it.
		select {
		case <-tick.C:
		case <-ctx.Done():
			return network.Network{}, engine.Classify(ctx, "launch", name, ctx.Err())
		}
	}
}

// networkTries bounds the lookups of a network that others create at the same time.
const networkTries = 50

// makeInternal creates a network. Docker gives one name to two networks that are requested at once. It gives a bridge
// to only one of them, so the second request fails.
func (e containers) makeInternal(ctx context.Context, name string) error {
	options := client.NetworkCreateOptions{
		Driver: "bridge", Internal: true, Labels: map[string]string{labelVersion: version, labelNetwork: name},
	}
	if !e.Podman {
		sum := sha256.Sum256([]byte(name))
		// An interface's name has at most 15 bytes.
		options.Options = map[string]string{"com.docker.network.bridge.name": "sb-" + hex.EncodeToString(sum[:6])}
	}
	_, err := e.Client.NetworkCreate(ctx, name, options)
	return err
}

// networksNamed lists the networks of a name.
func (e containers) networksNamed(ctx context.Context, name string) ([]network.Network, error) {
	listed, err := e.Client.NetworkList(ctx, client.NetworkListOptions{Filters: make(client.Filters).Add("name", name)})
	if err != nil {
		return nil, err
	}
	var found []network.Network
	for _, n := range listed.Items {
		if n.Name == name { // the filter matches parts of names
			found = append(found, n.Network)
		}
	}
	return found, nil
}

// internalFence allows the addresses of the network, except the engine's machine.
func internalFence(n network.Network) wire.Fence {
	f := wire.Fence{On: true, Closed: true}
	for _, pool := range n.IPAM.Config {
		if !pool.Subnet.IsValid() {
			continue
		}
		f.Only = append(f.Only, pool.Subnet.String())
		for _, host := range []netip.Addr{pool.Gateway, pool.Subnet.Masked().Addr().Next()} {
			if host.IsValid() {
				f.Never = append(f.Never, netip.PrefixFrom(host, host.BitLen()).String())
			}
		}
	}
	return f
}

// leaveInternal removes an app's internal network when no container has it. An engine refuses to remove a network in
// use, but does not count stopped containers.
func (e containers) leaveInternal(ctx context.Context, name string) error {
	ctx, cancel := engine.Within(context.WithoutCancel(ctx), engine.AskTimeout)
	defer cancel()
	unused, err := e.unusedNetworks(ctx)
	if err != nil {
		return engine.Classify(ctx, "network", name, err)
	}
	for _, n := range unused {
		if n.Name != name {
			continue
		}
		_, err := e.Client.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
		if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsPermissionDenied(err) && !errdefs.IsConflict(err) {
			return engine.Classify(ctx, "network", name, err)
		}
	}
	return nil
}

// unusedNetworks lists the networks that sb created and no container has.
func (e containers) unusedNetworks(ctx context.Context) ([]network.Network, error) {
	networks, err := e.Client.NetworkList(ctx, client.NetworkListOptions{Filters: make(client.Filters).
		Add("label", labelNetwork)})
	if err != nil || len(networks.Items) == 0 {
		return nil, err
	}
	containers, err := e.Client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).
		Add("label", labelNetwork)})
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, c := range containers.Items {
		if _, ok := describe(c.ID, c.Labels, c.Names...); ok {
			used[c.Labels[labelNetwork]] = true
		}
	}
	var unused []network.Network
	for _, n := range networks.Items {
		if n.Labels[labelNetwork] == n.Name && !used[n.Name] {
			unused = append(unused, n.Network)
		}
	}
	return unused, nil
}
