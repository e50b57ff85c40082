package docker

import (
	"context"
	"net/netip"
	"slices"

	"github.com/seed-0724f904/sb/core"
)

var _ core.Enforcer = (*Provider)(nil)

// Enforcement implements core.Enforcer. What the engine cannot hold at all a launch refuses.
func (p *Provider) Enforcement(_ context.Context, spec core.Spec) ([]core.Enforcement, error) {
	list := spec.EnforcedFields()
	for i := range list {
		e := &list[i]
		e.Strength = core.Full
		switch e.Field {
		case "cpu", "memory", "processes":
			e.How = "the engine's control group"
		case "open_files":
			e.How = "a resource limit that the container cannot raise"
		case "disk":
			e.How = "a quota of the engine's storage"
			if p.facts().Storage == "btrfs" {
				// Linux 6.18 says in its log: "qgroup marked inconsistent, to be deleted qgroup has non-zero numbers".
				e.Strength, e.Gap = core.Partial, "btrfs may stop counting when a container is removed, until somebody runs btrfs quota rescan"
			}
		case "timeout", "idle_timeout":
			e.How = "the container's first process, which ends it"
		case "network":
			e.How = "the container's network"
			if spec.Network.Mode != core.NetworkNone {
				e.How = "routing rules in the container's network, which nobody inside has the capability to change"
			}
			if spec.Network.Mode == core.NetworkInternal {
				e.How = "an internal network of the engine's, and " + e.How
			}
			if slices.ContainsFunc(spec.Network.Allow, isName) {
				e.Strength, e.Gap = core.Unenforced, "names cannot be told apart in a container's network: a launch with one is refused"
			}
		case "volumes":
			e.How = "a read-only mount"
		default:
			e.Strength, e.Gap = core.Unknown, "nothing is known of it"
			continue
		}
		if p.opts.Runtime != "" {
			e.How += "; runtime " + p.opts.Runtime
		}
	}
	return list, nil
}

// isName says whether an entry of an allow-list is a domain, not a CIDR.
func isName(allowed string) bool {
	_, err := netip.ParsePrefix(allowed)
	return err != nil
}
