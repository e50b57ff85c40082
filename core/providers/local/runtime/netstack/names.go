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
	// maxNames bounds how many names have a stand-in: a pattern lets a sandbox make names up.
	maxNames = 16 << 10
	// minTTL and maxTTL bound for how long an answer of the resolvers is believed.
	minTTL, maxTTL = 5 * time.Second, time.Hour
)

// standIns is where the addresses lie that stand for names. It is for benchmarks of networks (RFC 2544) and unused
// outside; programs that fake addresses for a whole machine take the other half.
func standIns() netip.Prefix { return netip.MustParsePrefix("198.19.0.0/16") }

// names are the domains that a sandbox reaches by name. Each has an address inside that stands for it alone, even if
// other names share its addresses outside. An address stands for its name as long as the sandbox runs, and in its
// copies.
type names struct {
	mu     sync.Mutex
	byName map[string]*named
	byAddr map[netip.Addr]string
}

// named is what is known of one name.
type named struct {
	standIn netip.Addr
	outside []netip.Addr
	until   time.Time // for how long outside is believed
}

// canonical is a name as names are compared.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// learn notes where a name is outside, and returns its stand-in; false when there are too many.
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

// free is an address that stands for nothing yet. The caller holds mu.
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

// add takes a name up. The caller holds mu.
func (n *names) add(name string, known *named) {
	if n.byName == nil {
		n.byName, n.byAddr = map[string]*named{}, map[netip.Addr]string{}
	}
	n.byName[name], n.byAddr[known.standIn] = known, name
}

// of returns the name that an address stands for.
func (n *names) of(addr netip.Addr) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ok := n.byAddr[addr]
	return name, ok
}

// outside returns where a name is outside, if that is known and still believed.
func (n *names) outside(name string) []netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.byName[name]
	if known == nil || time.Now().After(known.until) {
		return nil
	}
	return known.outside
}

// Names returns the names that the sandbox has stand-ins of.
func (s *Stack) Names() map[string]netip.Addr {
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	all := make(map[string]netip.Addr, len(s.names.byName))
	for name, known := range s.names.byName {
		all[name] = known.standIn
	}
	return all
}

// TakeNames takes over what Names returned of the sandbox that this one is a copy of, before this one begins.
func (s *Stack) TakeNames(all map[string]netip.Addr) {
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	for name, addr := range all {
		if standIns().Contains(addr) && len(s.names.byName) < maxNames {
			s.names.add(name, &named{standIn: addr})
		}
	}
}
