//go:build linux

package netstack

import (
	"context"
	"net/netip"
	"testing"
)

func TestAllowList(t *testing.T) {
	list := NewAllowList(
		NewAllowPublic(),
		[]string{"192.0.2.0/24", "10.7.0.0/16", "Example.org", "*.below.example", "169.254.0.0/16", "127.0.0.0/8"},
	)
	ask := func(name string) bool {
		allowed, _ := list.Allow(
			context.Background(), Flow{Proto: DNS, Dst: netip.AddrPortFrom(GatewayAddr(), 53), Name: name},
		)
		return allowed
	}
	connect := func(proto Proto, addr, name string) bool {
		dst := netip.AddrPortFrom(netip.MustParseAddr(addr), 443)
		allowed, reason := list.Allow(context.Background(), Flow{Proto: proto, Dst: dst, Name: name})
		if allowed != (reason == "") {
			t.Errorf("%s %s %q: allowed %v because %q", proto, addr, name, allowed, reason)
		}
		return allowed
	}
	for name, want := range map[string]bool{
		"example.org": true, "EXAMPLE.ORG": true, "www.example.org": false, "notexample.org": false,
		"example.org.evil": false,
		"a.below.example":  true, "a.b.below.example": true, "below.example": false, "xbelow.example": false, "": false,
	} {
		if ask(name) != want {
			t.Errorf("asking for %q is allowed: %v", name, !want)
		}
		if name != "" && connect(TCP, "198.51.100.9", name) != want {
			t.Errorf("connecting to %q is allowed: %v", name, !want)
		}
	}
	for addr, want := range map[string]bool{
		"192.0.2.7": true, "192.0.3.7": false, "198.51.100.9": false, "10.7.1.1": true,
		// No list opens an address that no sandbox may reach.
		"169.254.169.254": false, "127.0.0.1": false,
	} {
		if connect(TCP, addr, "") != want || connect(UDP, addr, "") != want {
			t.Errorf("connecting to %s is allowed: %v", addr, !want)
		}
	}
	// Where a domain may lead.
	for addr, want := range map[string]bool{
		"198.51.100.9": true, "10.7.1.1": true, "10.8.1.1": false, "192.168.1.1": false, "172.16.0.1": false,
		"100.64.0.1": false, "127.0.0.1": false, "169.254.169.254": false,
	} {
		if connect(TCP, addr, "example.org") != want {
			t.Errorf("a domain may lead to %s: %v", addr, !want)
		}
	}
	if all := NewAllowList(NewAllowPublic(), []string{"*"}); !all.named("any.example") {
		t.Error("* is not every domain")
	}
}
