//go:build linux

package netstack

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routeType is the type of a route: RTN_UNICAST and others of rtnetlink(7).
type routeType int

// lookUpRoute returns the kernel's route for a packet of this process to addr. Only the kernel can decide that: it
// depends on addresses of interfaces, local routes, broadcasts and routing rules. Without a route the type is
// RTN_UNREACHABLE.
func lookUpRoute(addr netip.Addr) (routeType, error) {
	routes, err := netlink.RouteGet(net.IP(addr.AsSlice()))
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return unix.RTN_UNREACHABLE, nil
	case err != nil:
		return unix.RTN_UNSPEC, fmt.Errorf("look up the route to %s: %w", addr, err)
	case len(routes) == 0:
		return unix.RTN_UNSPEC, fmt.Errorf("look up the route to %s: the kernel returned none", addr)
	}
	return routeType(routes[0].Type), nil
}

// reachesHost returns the reason why a packet on such a route reaches this host, or "".
func (t routeType) reachesHost() string {
	switch t {
	case unix.RTN_UNICAST, unix.RTN_UNREACHABLE:
		return ""
	case unix.RTN_LOCAL:
		return "it is an address of this host"
	case unix.RTN_BROADCAST:
		return "it is a broadcast address, which reaches this host, too"
	}
	return "it is a reserved address"
}
