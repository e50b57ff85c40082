//go:build linux

package netstack

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// maxNames bounds the names with a stand-in, because a sandbox can invent names that match a pattern.
	maxNames = 16 << 10
	// minTTL and maxTTL bound the time that an answer of the resolvers is valid.
	minTTL, maxTTL = 5 * time.Second, time.Hour
)

// standIns returns the range of stand-in addresses. It is reserved for network benchmarks (RFC 2544) and unused
// outside. Programs that fake addresses for a whole machine use the other half of the reserved range.
func standIns() netip.Prefix { return netip.MustParsePrefix("198.19.0.0/16") }

// names are the domains that a sandbox reaches by name. Each has a unique address inside, its stand-in, even if other
// names share its addresses outside. A stand-in belongs to its name until the sandbox ends, and in its copies.
type names struct {
	mu     sync.Mutex
	byName map[string]*named
	byAddr map[netip.Addr]string
}

// named is the data of one name.
type named struct {
	standIn netip.Addr
	outside []netip.Addr
	until   time.Time // the end of outside's validity
}

// canonical returns the form of a name for comparisons.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// learn records the addresses of a name outside, and returns its stand-in. false means that there are too many names.
func (n *names) learn(name string, outside []netip.Addr, ttl time.Duration) (netip.Addr, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.byName[name]
	if known == nil {
		if len(n.byName) >= maxNames {
			return netip.Addr{}, false
		}
		known = &named{standIn: n.free()}
		n.add(name, known)
	}
	known.outside, known.until = outside, time.Now().Add(min(max(ttl, minTTL), maxTTL))
	return known.standIn, true
}

// free returns an unused stand-in. The caller holds mu.
func (n *names) free() netip.Addr {
	first := standIns().Addr().As4()
	for at := binary.BigEndian.Uint32(first[:]) + 1 + uint32(len(n.byAddr)); ; at++ { //nolint:gosec // at most maxNames
		var next [4]byte
		binary.BigEndian.PutUint32(next[:], at)
		if addr := netip.AddrFrom4(next); n.byAddr[addr] == "" {
			return addr
		}
	}
}

// add adds a name. The caller holds mu.
func (n *names) add(name string, known *named) {
	if n.byName == nil {
		n.byName, n.byAddr = map[string]*named{}, map[netip.Addr]string{}
	}
	n.byName[name], n.byAddr[known.standIn] = known, name
}

// of returns the name of a stand-in.
func (n *names) of(addr netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ok := n.byAddr[addr]
	return name, ok
}

// outside returns the addresses of a name outside, or nil if they are unknown or no longer valid.
func (n *names) outside(name string) []netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.byName[name]
	if known == nil || time.Now().After(known.until) {
		return nil
	}
	return known.outside
}

// Names returns the sandbox's names and their stand-ins.
func (s *Stack) Names() map[string]netip.Addr {
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	all := make(map[string]netip.Addr, len(s.names.byName))
	for name, known := range s.names.byName {
		all[name] = known.standIn
	}
	return all
}

// TakeNames adds the result of Names from the sandbox that this one is a copy of. Call it before this sandbox starts.
func (s *Stack) TakeNames(all map[string]netip.Addr) {
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	for name, addr := range all {
		if standIns().Contains(addr) && len(s.names.byName) < maxNames {
			s.names.add(name, &named{standIn: addr})
		}
	}
}
