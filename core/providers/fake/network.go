package fake

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

// SetNetwork implements core.NetworkPolicer. It only records the policy: there is no network.
func (k *Keeper) SetNetwork(ctx context.Context, id string, network core.Network) (core.Sandbox, error) {
	b, err := k.reach(ctx, OpNetwork, id)
	if err != nil {
		return core.Sandbox{}, err
	}
	b.mu.Lock()
	b.sandbox.Spec.Network = network
	b.mu.Unlock()
	return b.get(), nil
}

// reach returns a sandbox that accepts connections.
func (k *Keeper) reach(ctx context.Context, op Op, id string) (*box, error) {
	if err := k.faults.meet(ctx, op); err != nil {
		return nil, err
	}
	b, err := k.box(id)
	if err != nil {
		return nil, err
	}
	return b, b.ready()
}

// Tunnels implements core.Tunneler.
func (k *Keeper) Tunnels(ctx context.Context, id string) ([]core.Tunnel, error) {
	b, err := k.reach(ctx, OpTunnels, id)
	if err != nil {
		return nil, err
	}
	tunnels := []core.Tunnel{}
	for _, port := range b.get().Spec.Ports {
		tunnel := core.Tunnel{
			Port: port.Sandbox, Protocol: port.Protocol, Address: fmt.Sprintf("%s-%d.tunnels.invalid:443", id, port.Sandbox),
		}
		if port.Protocol != core.PortTCP {
			tunnel.URL = "https://" + tunnel.Address
		}
		if port.Protocol == core.PortDefault {
			tunnel.Protocol = core.PortHTTPS
		}
		tunnels = append(tunnels, tunnel)
	}
	slices.SortFunc(tunnels, func(a, b core.Tunnel) int { return a.Port - b.Port })
	return tunnels, nil
}

// ConnectToken implements core.Tunneler.
func (k *Keeper) ConnectToken(ctx context.Context, id string, opts core.ConnectOptions) (core.ConnectToken, error) {
	if _, err := k.reach(ctx, OpTunnels, id); err != nil {
		return core.ConnectToken{}, err
	}
	port := opts.Port
	if port == 0 {
		port = 8080
	}
	return core.ConnectToken{
		URL: fmt.Sprintf("https://%s-%d.connect.invalid", id, port), Token: core.NewSecretValue(core.NewID("token-")),
	}, nil
}

// DialPort implements core.PortForwarder: KeeperOptions.Serve answers.
func (k *Keeper) DialPort(ctx context.Context, id string, port int) (net.Conn, error) {
	b, err := k.reach(ctx, OpDial, id)
	if err != nil {
		return nil, err
	}
	serve := k.opts.Serve[port]
	if serve == nil {
		return nil, core.Errorf(core.KindUnavailable, "fake.dial", id, "nothing listens on port %d", port)
	}
	outside, inside := net.Pipe()
	b.running.Go(func() {
		defer func() { _ = inside.Close() }()
		serve(inside)
	})
	return outside, nil
}

// Enforcement implements core.Enforcer.
func (k *Keeper) Enforcement(_ context.Context, _ string, spec core.Spec) ([]core.Enforcement, error) {
	list := spec.EnforcedFields()
	for i := range list {
		list[i].Strength, list[i].How = core.Full, "not enforced: it runs in this process's memory"
		if slices.Contains(k.opts.Weak, list[i].Field) {
			list[i].Strength, list[i].Gap = core.Unenforced, "nothing looks at it"
		}
	}
	return list, nil
}
