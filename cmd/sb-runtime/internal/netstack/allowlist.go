//go:build linux

package netstack

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// learnedFor is how long an address counts as a name's at least: programs keep what they looked up.
	learnedFor = 10 * time.Minute
	// learnedMost bounds how many addresses are known at the same time.
	learnedMost = 4096
)

// AllowList is the policy of an allow-list: of what another policy allows, only what the list names. A domain on it
// may be asked for, and the addresses that the answers had may be connected to, whatever name is then used there:
// the list holds for addresses, not for what is said over a connection. Other names are not answered.
type AllowList struct {
	within   Policy
	prefixes []netip.Prefix
	domains  []string // "pypi.org", ".pypi.org" for what is below it, "" for each
	now      func() time.Time

	mu      sync.Mutex
	learned map[netip.Addr]time.Time // until when
}

// NewAllowList makes the policy from CIDRs and domains ("pypi.org", "*.pypi.org").
func NewAllowList(within Policy, entries []string) *AllowList {
	l := &AllowList{within: within, now: time.Now, learned: map[netip.Addr]time.Time{}}
	for _, entry := range entries {
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			l.prefixes = append(l.prefixes, prefix.Masked())
			continue
		}
		l.domains = append(l.domains, strings.ToLower(strings.TrimPrefix(strings.TrimSuffix(entry, "."), "*")))
	}
	return l
}

// Allow implements Policy.
func (l *AllowList) Allow(ctx context.Context, flow Flow) (bool, string) {
	if allowed, reason := l.within.Allow(ctx, flow); !allowed {
		return false, reason
	}
	if flow.Proto == DNS {
		if !l.named(flow.Name) {
			return false, "the domain is not on the allow-list"
		}
		return true, ""
	}
	addr := embedded(flow.Dst.Addr())
	if slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return true, ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if until, known := l.learned[addr]; known && l.now().Before(until) {
		return true, ""
	}
	return false, "the address is not on the allow-list"
}

func (l *AllowList) named(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(l.domains, func(domain string) bool {
		return name == domain || domain == "" || domain[0] == '.' && strings.HasSuffix(name, domain)
	})
}

// Learn is told of the answer to a question that was allowed.
func (l *AllowList) Learn(answer []byte) {
	var message dnsmessage.Message
	if message.Unpack(answer) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, record := range message.Answers {
		var addr netip.Addr
		switch body := record.Body.(type) {
		case *dnsmessage.AResource:
			addr = netip.AddrFrom4(body.A)
		case *dnsmessage.AAAAResource:
			addr = netip.AddrFrom16(body.AAAA)
		default:
			continue
		}
		if embedded(addr).IsPrivate() {
			continue // a name must not lead into a private network; a CIDR on the list may
		}
		if len(l.learned) >= learnedMost {
			l.forget(now)
		}
		l.learned[embedded(addr)] = now.Add(max(learnedFor, time.Duration(record.Header.TTL)*time.Second))
	}
}

// forget makes room: what is over, or else anything. The caller holds mu.
func (l *AllowList) forget(now time.Time) {
	for addr, until := range l.learned {
		if until.Before(now) || len(l.learned) >= learnedMost {
			delete(l.learned, addr)
		}
	}
}
