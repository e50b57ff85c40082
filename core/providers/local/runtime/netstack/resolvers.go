//go:build linux

package netstack

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
)

const (
	resolvConf = "/etc/resolv.conf"
	// systemdConf has the upstream servers of systemd-resolved.
	systemdConf = "/run/systemd/resolve/resolv.conf"
)

// ResolverFiles returns the files that list the host's name servers.
func ResolverFiles() []string { return []string{resolvConf, systemdConf} }

// hostResolvers returns the host's current name servers. It bypasses the stub of systemd-resolved if possible, because
// the stub answers with names from the host's /etc/hosts.
func hostResolvers() ([]netip.AddrPort, error) {
	servers, err := readResolvers(resolvConf)
	if err != nil {
		return nil, err
	}
	stub := netip.AddrFrom4([4]byte{127, 0, 0, 53})
	if slices.ContainsFunc(servers, func(a netip.AddrPort) bool { return a.Addr() != stub }) {
		return servers, nil
	}
	if upstream, err := readResolvers(systemdConf); err == nil && len(upstream) > 0 {
		return upstream, nil
	}
	if len(servers) == 0 {
		// The default of resolv.conf(5) for a file without name servers.
		return []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), dnsPort)}, nil
	}
	return servers, nil
}

// readResolvers reads one file. A missing file has no servers.
func readResolvers(path string) ([]netip.AddrPort, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return parseResolvers(f)
}

// parseResolvers reads the format of resolv.conf(5).
func parseResolvers(r io.Reader) ([]netip.AddrPort, error) {
	var servers []netip.AddrPort
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, netip.AddrPortFrom(addr, dnsPort))
		}
	}
	return servers, lines.Err()
}
