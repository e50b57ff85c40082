//go:build linux

package local

import (
	"context"
	"math"
	"net/netip"
	"slices"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
)

var _ core.Enforcer = (*Provider)(nil)

// Enforcement implements core.Enforcer. docs/architecture.md has the table that this is.
func (p *Provider) Enforcement(_ context.Context, spec core.Spec) ([]core.Enforcement, error) {
	_, err := cgroup.Find(groupPrefix + "looked-for")
	grouped := err == nil
	list := spec.EnforcedFields()
	for i := range list {
		e := &list[i]
		e.Strength = core.Full
		switch e.Field {
		case "cpu":
			e.How = "a quota of a control group"
			if !grouped {
				e.How = "the processors that the sandbox may run on"
				if spec.CPU != math.Trunc(spec.CPU) {
					e.Strength, e.Gap = core.Partial, "without a control group it is rounded up to whole cores"
				}
			}
		case "memory":
			e.How = "the supervisor's look every 50 ms, and a control group's hard limit for the sandbox with its kernel"
			if !grouped {
				e.How = "the supervisor's look every 50 ms"
				e.Strength, e.Gap = core.Partial, "without a control group more can be taken for up to 50 ms"
			}
		case "processes":
			e.How = "a resource limit inside"
			e.Strength, e.Gap = core.Partial, "it counts for each user inside by themselves"
		case "open_files":
			e.How = "a resource limit inside"
		case "disk":
			e.How = "the size of the writable layer"
		case "timeout", "idle_timeout":
			e.How = "the sandbox's supervisor"
		case "network":
			e.How = "the sandbox's own network stack, outside of it"
			if spec.Network.Mode == core.NetworkAllow && slices.ContainsFunc(spec.Network.Allow, isDomain) {
				e.How += ", which sees whom a TLS hello and each HTTP request ask, and resolves domains itself"
				e.Strength, e.Gap = core.Partial, "what is inside TLS is not seen: a server that answers there for another name than the one it was asked for can be used so"
			}
		case "volumes":
			e.How = "a read-only mount"
		default:
			e.Strength, e.Gap = core.Unknown, "nothing is known of it"
		}
	}
	return list, nil
}

// isDomain says whether an entry of an allow-list is a name.
func isDomain(entry string) bool {
	_, err := netip.ParsePrefix(entry)
	return err != nil
}
