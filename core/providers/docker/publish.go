package docker

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// firstOutside is the first port of the box's own listeners: the kernel gives no such port to a client (61000 and above
// are outside of its default range).
const firstOutside = 61000

// outside returns the listeners of the box for published ports, each once, in their order.
func outside(ports []core.Port) []wire.Port {
	var list []wire.Port
	next := firstOutside
	for _, port := range ports {
		if slices.ContainsFunc(list, func(p wire.Port) bool { return int(p.Inside) == port.Sandbox }) {
			continue
		}
		for slices.ContainsFunc(ports, func(p core.Port) bool { return p.Sandbox == next }) {
			next++
		}
		//nolint:gosec // validated: 1 to 65535, and there are too few ports for an overflow
		list = append(list, wire.Port{Inside: uint16(port.Sandbox), Outside: uint16(next)})
		next++
	}
	return list
}

// inside returns the sandbox's port of a listener.
func inside(ports []core.Port, number uint16) int {
	for _, p := range outside(ports) {
		if p.Outside == number {
			return int(p.Inside)
		}
	}
	return int(number)
}

// onThisMachine reports whether the engine is one of this machine, as far as its address shows that.
func (p *Provider) onThisMachine() bool {
	e := p.met()
	return e.Engine != nil && strings.HasPrefix(e.At.Host, "unix://")
}

// hostAddresses returns the addresses of the engine's machine, without loopback and link-local ones. Of another machine
// they are those that lead to the engine and those of its networks.
func (e containers) hostAddresses(ctx context.Context) ([]netip.Addr, error) {
	var hosts []netip.Addr
	add := func(a netip.Addr) {
		a = a.Unmap().WithZone("")
		if a.IsValid() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !slices.Contains(hosts, a) {
			hosts = append(hosts, a)
		}
	}
	// They are also those of an engine in a machine of its own here, such as Docker Desktop's.
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, core.Wrap("docker.launch", "network", err)
	}
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			add(prefix.Addr())
		}
	}
	at, err := url.Parse(e.At.Host)
	if err != nil || at.Scheme == "unix" {
		return hosts, nil
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	if found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", at.Hostname()); err == nil {
		for _, a := range found {
			add(a)
		}
	}
	listed, err := e.Client.NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		return nil, engine.Classify(ctx, "launch", "network", err)
	}
	for _, n := range listed.Items {
		for _, pool := range n.IPAM.Config {
			add(pool.Gateway)
		}
	}
	return hosts, nil
}
