//go:build linux

package box

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/agent/wire"
)

// The fence consists of routing rules. Rules come before routes, so later changes to the network cannot bypass them.
// They need no kernel module. Processes in the sandbox lack the capability to change them.

// rule decides on packets to a network: they are routed as usual, or unreachable.
type rule struct {
	to    netip.Prefix
	allow bool
	// port, if not 0, narrows the rule to one port of UDP and TCP.
	port uint16
	// from, if not 0, narrows the rule to TCP from this port of the sandbox.
	from uint16
}

// dnsPort is the port of name servers.
const dnsPort = 53

// raiseFence puts a network policy up.
func raiseFence(f wire.Fence) error {
	f.Host = append(f.Host, namedHosts("/etc/hosts")...)
	rules, err := plan(f, routes(), nameservers("/etc/resolv.conf"))
	if err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	priority := uint32(1)
	for _, r := range rules {
		protocols := []uint8{0}
		switch {
		case r.port != 0:
			protocols = []uint8{unix.IPPROTO_UDP, unix.IPPROTO_TCP}
		case r.from != 0:
			protocols = []uint8{unix.IPPROTO_TCP}
		}
		for _, protocol := range protocols {
			err := addRule(socket, r, protocol, priority)
			if errors.Is(err, unix.EAFNOSUPPORT) && r.to.Addr().Is6() {
				continue // a kernel without IPv6 leads nowhere
			}
			if err != nil {
				return fmt.Errorf("rule for %s: %w", r.to, err)
			}
			priority++
		}
	}
	return nil
}

// route is a network that is reached directly, and the way to all others.
type route struct {
	to      netip.Prefix
	gateway netip.Addr // not valid: reached directly
}

// plan returns the rules in the order in which the kernel checks them.
func plan(f wire.Fence, routes []route, dns []netip.Addr) ([]rule, error) {
	var rules []rule
	add := func(to netip.Prefix, allow bool, port uint16) {
		rules = append(rules, rule{to: to.Masked(), allow: allow, port: port})
	}
	single := func(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
	host := slices.Clone(f.Host)
	for _, r := range routes {
		if !r.gateway.IsValid() || r.gateway.IsLinkLocalUnicast() {
			continue
		}
		host = append(host, r.gateway)
		for _, p := range f.Ports {
			if r.gateway.Is4() {
				rules = append(rules, rule{to: single(r.gateway), allow: true, from: p.Outside})
			}
		}
	}
	linkLocal := []netip.Prefix{
		netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"),
		netip.MustParsePrefix("fd00:ec2::254/128"), // a cloud's metadata service
	}
	for _, text := range f.Never {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		add(prefix, false, 0)
	}
	if f.Closed {
		var only []netip.Prefix
		for _, text := range f.Only {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, err
			}
			only = append(only, prefix.Masked())
		}
		// A rule must name link-local addresses explicitly: a wider network does not include them.
		for _, prefix := range only {
			if slices.ContainsFunc(linkLocal, func(l netip.Prefix) bool {
				return l.Contains(prefix.Addr()) &&
					l.Bits() <= prefix.Bits()
			}) {
				add(prefix, true, 0)
			}
		}
		for _, prefix := range linkLocal {
			add(prefix, false, 0)
		}
		// So must one name the host's.
		for _, server := range dns {
			if slices.ContainsFunc(only, func(p netip.Prefix) bool { return p.Contains(server) }) {
				add(single(server), true, dnsPort)
			}
		}
		for _, address := range host {
			add(single(address), f.OpenHost || slices.Contains(only, single(address)), 0)
		}
		for _, prefix := range only {
			add(prefix, true, 0)
		}
		add(netip.PrefixFrom(netip.IPv4Unspecified(), 0), false, 0)
		add(netip.PrefixFrom(netip.IPv6Unspecified(), 0), false, 0)
		return rules, nil
	}
	for _, server := range dns {
		if !server.IsLoopback() {
			add(netip.PrefixFrom(server, server.BitLen()), true, dnsPort)
		}
	}
	for _, prefix := range linkLocal {
		add(prefix, false, 0)
	}
	for _, address := range host {
		add(single(address), f.OpenHost, 0)
	}
	// The neighbors are other sandboxes.
	for _, r := range routes {
		if !r.gateway.IsValid() && r.to.Bits() > 0 && !r.to.Addr().IsLoopback() && !r.to.Addr().IsMulticast() {
			add(r.to, false, 0)
		}
	}
	return rules, nil
}

// routes reads the main tables.
func routes() []route {
	return append(routes4("/proc/net/route"), routes6("/proc/net/ipv6_route")...)
}

// routes4 reads lines of: interface, destination, gateway, flags, three counters, mask; addresses are
// hexadecimal in the processor's order.
func routes4(path string) []route {
	var list []route
	for _, f := range rows(path, 8) {
		to, toOK := address4(f[1])
		gateway, gatewayOK := address4(f[2])
		mask, maskOK := address4(f[7])
		if !toOK || !gatewayOK || !maskOK {
			continue
		}
		bits := 0
		for _, b := range mask.AsSlice() {
			for ; b != 0; b <<= 1 {
				bits++
			}
		}
		r := route{to: netip.PrefixFrom(to, bits)}
		if !gateway.IsUnspecified() {
			r.gateway = gateway
		}
		list = append(list, r)
	}
	return list
}

func address4(text string) (netip.Addr, bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 4 {
		return netip.Addr{}, false
	}
	var native [4]byte
	binary.NativeEndian.PutUint32(native[:], binary.BigEndian.Uint32(b))
	return netip.AddrFrom4(native), true
}

// routes6 reads lines of: destination, its bits, source, its bits, next hop, four numbers, interface. It skips routes
// to multicast groups and to single addresses of this machine.
func routes6(path string) []route {
	var list []route
	for _, f := range rows(path, 10) {
		to, toErr := hex.DecodeString(f[0])
		bits, bitsErr := hex.DecodeString(f[1])
		hop, hopErr := hex.DecodeString(f[4])
		if toErr != nil || bitsErr != nil || hopErr != nil || len(to) != 16 || len(bits) != 1 || len(hop) != 16 ||
			f[9] == "lo" {
			continue
		}
		if bits[0] == 128 || to[0] == 0xff {
			continue
		}
		r := route{to: netip.PrefixFrom(netip.AddrFrom16([16]byte(to)), int(bits[0]))}
		if gateway := netip.AddrFrom16([16]byte(hop)); !gateway.IsUnspecified() {
			r.gateway = gateway
		}
		list = append(list, r)
	}
	return list
}

// nameservers reads resolv.conf(5).
func nameservers(path string) []netip.Addr {
	var servers []netip.Addr
	for _, f := range rows(path, 2) {
		if server, err := netip.ParseAddr(f[1]); err == nil && f[0] == "nameserver" {
			servers = append(servers, server.WithZone(""))
		}
	}
	return servers
}

// namedHosts returns the addresses of the engine's machine in a hosts(5) file. Podman and Docker Desktop write them.
func namedHosts(path string) []netip.Addr {
	var hosts []netip.Addr
	for _, f := range rows(path, 2) {
		host, err := netip.ParseAddr(f[0])
		if err == nil && slices.ContainsFunc(f[1:], func(name string) bool {
			return name == "host.containers.internal" || name == "host.docker.internal"
		}) {
			hosts = append(hosts, host.WithZone(""))
		}
	}
	return hosts
}

// addRule adds one rule to the kernel (rtnetlink(7), RTM_NEWRULE).
func addRule(socket int, r rule, protocol uint8, priority uint32) error {
	family, action, table := byte(unix.AF_INET), byte(unix.FR_ACT_UNREACHABLE), byte(unix.RT_TABLE_UNSPEC)
	if r.to.Addr().Is6() {
		family = unix.AF_INET6
	}
	if r.allow {
		action, table = unix.FR_ACT_TO_TBL, unix.RT_TABLE_MAIN
	}
	// struct fib_rule_hdr: family, bits of destination and source, tos, table, two reserved, action, flags.
	body := []byte{family, byte(r.to.Bits()), 0, 0, table, 0, 0, action, 0, 0, 0, 0} //nolint:gosec // 0 to 128
	if r.to.Bits() > 0 {
		body = attribute(body, unix.FRA_DST, r.to.Addr().AsSlice())
	}
	body = attribute(body, unix.FRA_PRIORITY, binary.NativeEndian.AppendUint32(nil, priority))
	if protocol != 0 {
		body = attribute(body, unix.FRA_IP_PROTO, []byte{protocol})
	}
	for kind, port := range map[uint16]uint16{unix.FRA_DPORT_RANGE: r.port, unix.FRA_SPORT_RANGE: r.from} {
		if port != 0 {
			ports := binary.NativeEndian.AppendUint16(nil, port)
			body = attribute(body, kind, binary.NativeEndian.AppendUint16(ports, port))
		}
	}
	message := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body))) //nolint:gosec // a few dozen
	message = binary.NativeEndian.AppendUint16(message, unix.RTM_NEWRULE)
	message = binary.NativeEndian.AppendUint16(
		message, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL,
	)
	message = binary.NativeEndian.AppendUint32(message, priority) // the sequence number
	message = binary.NativeEndian.AppendUint32(message, 0)
	message = append(message, body...)
	if err := unix.Sendto(socket, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, os.Getpagesize())
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return unix.EBADMSG
	}
	//nolint:gosec // a negative errno
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code) //nolint:gosec // see above
	}
	return nil
}

// attribute appends one attribute, padded to four bytes.
func attribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value))) //nolint:gosec // at most 20
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%unix.RTA_ALIGNTO != 0 {
		b = append(b, 0)
	}
	return b
}

// rows returns the fields of a file's lines, without lines of fewer than least fields. A missing file has none.
func rows(path string, least int) [][]string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	var rows [][]string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if row := strings.Fields(lines.Text()); len(row) >= least {
			rows = append(rows, row)
		}
	}
	return rows
}
