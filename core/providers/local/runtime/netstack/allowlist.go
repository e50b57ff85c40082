//go:build linux

package netstack

import (
	"context"
	"net/netip"
	"slices"
	"strings"
)

// AllowList is the policy of an allow-list. It allows a flow if another policy allows it, and the list contains its
// destination. A domain on the list can be resolved, and reached by its name. Its addresses are not allowed, because
// they may serve other domains, too.
type AllowList struct {
	within   Policy
	prefixes []netip.Prefix
	domains  []string // "pypi.org", ".pypi.org" for its subdomains, "" for all
}

// NewAllowList makes the policy from CIDRs and domains ("pypi.org", "*.pypi.org").
func NewAllowList(within Policy, entries []string) *AllowList {
	l := &AllowList{within: within}
	for _, entry := range entries {
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			l.prefixes = append(l.prefixes, prefix.Masked())
			continue
		}
		l.domains = append(l.domains, strings.TrimPrefix(canonical(entry), "*"))
	}
	return l
}

// ByName implements Policy.
func (l *AllowList) ByName() bool { return true }

// Allow implements Policy.
func (l *AllowList) Allow(ctx context.Context, flow Flow) (bool, string) {
	if allowed, reason := l.within.Allow(ctx, flow); !allowed {
		return false, reason
	}
	addr := embedded(flow.Dst.Addr())
	switch {
	case flow.Proto != DNS && slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) }):
		return true, ""
	case flow.Name == "" && flow.Proto != DNS:
		return false, "the address is not on the allow-list"
	case !l.named(flow.Name):
		return false, "the domain is not on the allow-list"
	case flow.Proto != DNS && isPrivate(addr):
		return false, "the domain leads into a private network; allow its address instead"
	}
	return true, ""
}

// isPrivate reports whether addr belongs to a private network, or to a carrier's address translation (RFC 6598).
func isPrivate(addr netip.Addr) bool {
	return addr.IsPrivate() || netip.MustParsePrefix("100.64.0.0/10").Contains(addr)
}

func (l *AllowList) named(name string) bool {
	name = canonical(name)
	return slices.ContainsFunc(l.domains, func(domain string) bool {
		return name == domain || domain == "" || domain[0] == '.' && strings.HasSuffix(name, domain)
	})
}
