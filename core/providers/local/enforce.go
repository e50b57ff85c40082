//go:build linux

package local

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

var _ core.Enforcer = (*Provider)(nil)

// Enforcement implements core.Enforcer. docs/architecture.md has the table that this is.
func (p *Provider) Enforcement(_ context.Context, id string, spec core.Spec) ([]core.Enforcement, error) {
	controllers, why := p.held(id, spec)
	if why == nil {
		why = errors.New("this machine does not let its user have that controller")
	}
	list := spec.EnforcedFields()
	for i := range list {
		e := &list[i]
		e.Strength = core.Full
		switch e.Field {
		case "cpu":
			e.How = "a quota of a control group"
			if !slices.Contains(controllers, "cpu") {
				e.How = "the processors that the sandbox may run on"
				if spec.CPU != math.Trunc(spec.CPU) {
					e.Strength, e.Gap = core.Partial, "without a control group it is rounded up to whole cores: "+why.Error()
				}
			}
		case "memory":
			e.How = "the supervisor's look every 50 ms, and a control group's hard limit for the sandbox with its kernel"
			if !slices.Contains(controllers, "memory") {
				e.How = "the supervisor's look every 50 ms"
				e.Strength, e.Gap = core.Partial, "without a control group more can be taken for up to 50 ms: "+why.Error()
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
				e.Strength, e.Gap = core.Partial, "what is inside TLS is not seen: a server that answers there for another name "+
					"than the one it was asked for can be used so"
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
