//go:build linux

package netstack

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
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
	// Name is the domain of a DNS question, without the final dot, or the one that a connection goes to by its stand-in; "" for others.
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

// hostAddressesAge is for how long the host's own addresses are taken as known.
const hostAddressesAge = 5 * time.Second

// AllowPublic is the policy of "network all": everything but this host itself,
// multicast and the link-local and metadata addresses that clouds give credentials on. The
// host's own addresses count as its loopback, for what listens on all addresses
// is reached through either. Other machines of a private network stay reachable.
type AllowPublic struct {
	addresses func() ([]net.Addr, error)

	mu     sync.Mutex
	own    []netip.Addr
	looked time.Time
}

// NewAllowPublic returns the policy for this host.
func NewAllowPublic() *AllowPublic { return &AllowPublic{addresses: net.InterfaceAddrs} }

// Allow implements Policy.
func (p *AllowPublic) Allow(_ context.Context, flow Flow) (bool, string) {
	if flow.Proto == DNS {
		return true, ""
	}
	if reason := reserved(flow.Dst.Addr()); reason != "" {
		return false, reason
	}
	own, err := p.hostAddresses()
	if err != nil {
		return false, "this host's own addresses cannot be read"
	}
	if slices.Contains(own, embedded(flow.Dst.Addr())) {
		return false, "it is an address of this host"
	}
	return true, ""
}

// ByName implements Policy.
func (p *AllowPublic) ByName() bool { return false }

func (p *AllowPublic) hostAddresses() ([]netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.looked.IsZero() && time.Since(p.looked) < hostAddressesAge {
		return p.own, nil
	}
	found, err := p.addresses()
	if err != nil {
		return nil, err
	}
	var own []netip.Addr
	for _, a := range found {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, prefix.Addr().Unmap())
		}
	}
	p.own, p.looked = own, time.Now()
	return own, nil
}

// embedded returns the IPv4 address that an IPv6 address stands for, or addr.
func embedded(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if b := addr.As16(); addr.Is6() && netip.MustParsePrefix("64:ff9b::/96").Contains(addr) {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}

// reserved says why no sandbox may ever connect to addr, or "".
func reserved(addr netip.Addr) string {
	addr = embedded(addr)
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
