//go:build linux

package netstack

import (
	"context"
	"net/netip"
	"slices"
)

// Proto is the protocol of a flow.
type Proto string

// The protocols.
const (
	TCP Proto = "tcp"
	UDP Proto = "udp"
	// DNS is a query to the gateway's name server, over UDP or TCP.
	DNS Proto = "dns"
)

// Flow is a connection or a DNS query of the sandbox.
type Flow struct {
	Proto Proto
	// Dst is the destination. For DNS it is the gateway.
	Dst netip.AddrPort
	// Name is the domain of a DNS query, without the final dot, or of a connection to a stand-in. It is "" for other
	// flows.
	Name string
}

// Policy decides which destinations a sandbox may connect to. Its methods must be safe for concurrent use and return
// soon.
type Policy interface {
	// Allow reports whether the flow is allowed. The reason explains a refusal to the user.
	Allow(ctx context.Context, flow Flow) (allowed bool, reason string)
	// ByName reports whether an allowed domain allows only requests for that name, not all connections to its addresses.
	ByName() bool
}

// AllowPublic is the policy of "network all". It refuses this host, multicast, and link-local and metadata addresses,
// where clouds serve credentials. All addresses that the kernel delivers to this host are refused like its loopback: a
// service that listens on all addresses is reachable through any of them. Other machines of a private network are
// allowed.
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

// embedded returns the IPv4 address in an IPv6 address, or addr if there is none.
func embedded(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if b := addr.As16(); addr.Is6() && netip.MustParsePrefix("64:ff9b::/96").Contains(addr) {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}

// reserved returns the reason why no sandbox may connect to addr, or "". addr is a result of embedded.
func reserved(addr netip.Addr) string {
	switch {
	case !addr.IsValid() || addr.IsUnspecified():
		return "it is not an address"
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

// isMetadata reports whether addr is a metadata or credential service of a cloud.
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
