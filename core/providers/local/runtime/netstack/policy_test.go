//go:build linux

package netstack

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestAllowPublic(t *testing.T) {
	p := NewAllowPublic()
	p.route = routes("192.168.7.5", unix.RTN_LOCAL, "192.168.7.255", unix.RTN_BROADCAST)
	for addr, want := range map[string]bool{
		"93.184.216.34": true, "192.168.7.6": true, "10.0.0.1": true, "172.17.0.2": true, "2606:4700::1": true,
		"192.168.7.255": false, "64:ff9b::c0a8:7ff": false,
		"192.168.7.5": false, "::ffff:192.168.7.5": false, "64:ff9b::c0a8:705": false,
		"127.0.0.1": false, "127.8.9.10": false, "::1": false, "::ffff:127.0.0.1": false, "64:ff9b::7f00:1": false,
		"0.0.0.0": false, "0.1.2.3": false, "::": false, "255.255.255.255": false, "240.0.0.1": false,
		"169.254.1.1": false, "169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false,
		"fd00:ec2::254": false, "100.100.100.200": false, "168.63.129.16": false, "192.0.0.192": false,
		"224.0.0.251": false, "ff02::1": false, "10.88.0.1": false, "10.88.0.9": false,
	} {
		got, reason := p.Allow(t.Context(), Flow{Proto: TCP, Dst: netip.AddrPortFrom(netip.MustParseAddr(addr), 80)})
		if got != want || (reason == "") != want {
			t.Errorf("%s: allowed %v (%q), want %v", addr, got, reason, want)
		}
	}
}

// routes are the routes of a host with one special address and one more; all others lead elsewhere.
func routes(
	first string, firstType routeType, second string, secondType routeType,
) func(netip.Addr) (routeType, error) {
	return func(addr netip.Addr) (routeType, error) {
		switch addr.String() {
		case first:
			return firstType, nil
		case second:
			return secondType, nil
		}
		return unix.RTN_UNICAST, nil
	}
}

func TestAllowPublicRefusesUnknownRoutes(t *testing.T) {
	p := NewAllowPublic()
	p.route = func(netip.Addr) (routeType, error) { return unix.RTN_UNSPEC, errors.New("no netlink") }
	if ok, _ := p.Allow(t.Context(), Flow{Proto: UDP, Dst: netip.MustParseAddrPort("192.0.2.1:1")}); ok {
		t.Error("allowed without knowing the host's addresses")
	}
}

func TestParseResolvers(t *testing.T) {
	got, err := parseResolvers(
		strings.NewReader(
			"# nameserver 9.9.9.9\nsearch x\nnameserver 1.1.1.1\n nameserver\tfe80::1%eth0 # x\nnameserver bad\n",
		),
	)
	want := []netip.AddrPort{netip.MustParseAddrPort("1.1.1.1:53"), netip.MustParseAddrPort("[fe80::1%eth0]:53")}
	if err != nil || cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })) != "" {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}
