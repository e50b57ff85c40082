//go:build linux

package netstack

import (
	"context"
	"net/netip"
	"slices"
)

// Proto is what a flow speaks.
type Proto string

// The protocols.
const (
	TCP Proto = "tcp"
	UDP Proto = "udp"
	// DNS is a question to the gateway's name server, whatever carries it.
	DNS Proto = "dns"
)

// Flow is a connection that the sandbox wants, or a question that it asks.
type Flow struct {
	Proto Proto
	// Dst is where it goes; for DNS, the gateway.
	Dst netip.AddrPort
	// Name is the domain of a DNS question, without the final dot, or the one that a connection goes to by its stand-in;
	// "" for others.
	Name string
}

// Policy decides where a sandbox may connect to; nothing else does. Its methods are called at the
// same time from several goroutines and must answer soon.
type Policy interface {
	// Allow says whether the flow may be. The reason explains a refusal to a person.
	Allow(ctx context.Context, flow Flow) (allowed bool, reason string)
	// ByName says that allowing a domain allows what is asked of that name, not the addresses that it has.
	ByName() bool
}

// AllowPublic is the policy of "network all": everything but this host itself, multicast, and the link-local and
// metadata addresses that clouds give credentials on. What the kernel would deliver to this host counts as its
// loopback: a service that listens on all addresses is reached through any of them. Other machines of a private network
// stay reachable.
type AllowPublic struct {
	route func(netip.Addr) (routeType, error)
}

// NewAllowPublic returns the policy for this host.
func NewAllowPublic() *AllowPublic { return &AllowPublic{route: lookUpRoute} }

// Allow implements Policy.
func (p *AllowPublic) Allow(_ context.Context, flow Flow) (bool, string) {
	if flow.Proto == DNS {
		return true, ""
	}
	addr := embedded(flow.Dst.Addr())
	if reason := reserved(addr); reason != "" {
		return false, reason
	}
	route, err := p.route(addr)
	if err != nil {
		return false, "this host's routes cannot be read"
	}
	if reason := route.reachesHost(); reason != "" {
		return false, reason
	}
	return true, ""
}

// ByName implements Policy.
func (p *AllowPublic) ByName() bool { return false }

// embedded returns the IPv4 address that an IPv6 address stands for, or addr.
func embedded(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if b := addr.As16(); addr.Is6() && netip.MustParsePrefix("64:ff9b::/96").Contains(addr) {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}

// reserved says why no sandbox may ever connect to addr, which is embedded's, or "".
func reserved(addr netip.Addr) string {
	switch {
	case !addr.IsValid() || addr.IsUnspecified():
		return "it is no address"
	case addr.IsLoopback():
		return "it is this host's loopback"
	case isMetadata(addr):
		return "it is a cloud's metadata address"
	case addr.IsLinkLocalUnicast():
		return "it is a link-local address"
	case addr.IsMulticast():
		return "it is a multicast address"
	case subnet().Contains(addr):
		return "it is the sandbox's own network"
	case netip.MustParsePrefix("0.0.0.0/8").Contains(addr) || netip.MustParsePrefix("240.0.0.0/4").Contains(addr):
		return "it is a reserved address"
	}
	return ""
}

// isMetadata knows the metadata and credential services of clouds.
func isMetadata(addr netip.Addr) bool {
	return slices.Contains([]string{
		"169.254.169.254", // nearly all
		"169.254.170.2",   // AWS ECS
		"fd00:ec2::254",   // AWS
		"fd20:ce::254",    // Google
		"100.100.100.200", // Alibaba
		"168.63.129.16",   // Azure
		"192.0.0.192",     // Oracle
	}, addr.String())
}
