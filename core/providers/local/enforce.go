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

// Enforcement implements core.Enforcer. docs/architecture.md shows it as a table.
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
					e.Strength, e.Gap = core.Partial, "without a control group, it is rounded up to whole cores: "+why.Error()
				}
			}
		case "memory":
			e.How = "a measurement every 50 ms, and the control group's hard limit for the sandbox with its kernel"
			if !slices.Contains(controllers, "memory") {
				e.How = "a measurement every 50 ms"
				e.Strength, e.Gap = core.Partial, "without a control group, use can exceed the limit for up to 50 ms: "+why.Error()
			}
		case "processes":
			e.How = "a count of all processes and threads by the sandbox's own kernel"
		case "open_files":
			e.How = "a resource limit inside"
		case "disk":
			e.How = "the size of the writable layer"
		case "timeout", "idle_timeout":
			e.How = "the sandbox's supervisor"
		case "network":
			e.How = "the sandbox's own network stack, outside the sandbox"
			if spec.Network.Mode == core.NetworkAllow && slices.ContainsFunc(spec.Network.Allow, isDomain) {
				e.How += ", which reads the name in a TLS hello and in each HTTP request, and resolves domains itself"
				e.Strength, e.Gap = core.Partial, "requests inside TLS are not visible: an allowed server that also answers for "+
					"other names "+
					"can be used to reach those"
			}
		case "volumes":
			e.How = "a read-only mount"
		default:
			e.Strength, e.Gap = core.Unknown, "nothing is known of it"
		}
	}
	return list, nil
}

// isDomain reports whether an entry of an allow-list is a name.
func isDomain(entry string) bool {
	_, err := netip.ParsePrefix(entry)
	return err != nil
}
