package docker

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/moby/moby/api/types/container"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

var _ core.Enforcer = (*Provider)(nil)

// Enforcement implements core.Enforcer. Each call reads the limits that the engine supports and those of the container.
// A launch refuses a limit that the engine does not support.
func (p *Provider) Enforcement(ctx context.Context, id string, spec core.Spec) ([]core.Enforcement, error) {
	list := spec.EnforcedFields()
	facts, has, err := p.bounds(ctx, id, spec)
	if err != nil {
		return nil, err
	}
	for i := range list {
		e := &list[i]
		e.Strength = core.Full
		switch e.Field {
		case "cpu", "memory", "processes", "disk":
			limit(facts, e, spec)
			if has != nil {
				compare(e, has, spec)
			}
		case "open_files":
			e.How = "a resource limit that the container cannot raise; the engine's own holds where it is lower"
		case "shm_size":
			e.How = "the size of the tmpfs at /dev/shm"
		case "read_only":
			e.How = "a read-only root of the container, which no process inside has the capability to mount again"
			if has != nil && !has.ReadonlyRootfs {
				e.Strength, e.Gap = core.Unenforced, "the engine's container has a writable root"
			}
		case "timeout", "idle_timeout":
			e.How = "the container's first process, which ends it"
		case "network":
			e.How = "the container's network"
			if spec.Network.Mode != core.NetworkNone {
				e.How = "routing rules in the container's network, which no process inside has the capability to change"
			}
			if spec.Network.Mode == core.NetworkInternal {
				e.How = "an internal network of the engine's, and " + e.How
			}
			if reachesOut(spec) && !p.onThisMachine() {
				e.Strength, e.Gap = core.Partial, "the engine does not report all addresses of its machine, so some may be open"
			}
			if slices.ContainsFunc(spec.Network.Allow, func(a string) bool { return a != core.AllowHost && isName(a) }) {
				e.Strength, e.Gap = core.Unenforced, "a container's network cannot filter by name: a launch with a domain is "+
					"refused"
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

// bounds reads the limits that the engine supports and, with an id, those of that container. It makes no request if
// spec has no limit that the engine enforces and reaches no address outside of the sandbox.
func (p *Provider) bounds(ctx context.Context, id string, spec core.Spec) (engine.Facts, *container.HostConfig, error) {
	limited := spec.ReadOnly || spec.CPU != 0 || spec.Memory != 0 || spec.Processes != 0 || spec.Disk != 0
	if !limited && !reachesOut(spec) {
		return engine.Facts{}, nil, nil
	}
	e, err := p.connect(ctx)
	if err != nil || !limited {
		return engine.Facts{}, nil, err
	}
	ctx, cancel := engine.Within(ctx, engine.AskTimeout)
	defer cancel()
	facts, err := e.Ask(ctx)
	if err != nil {
		return engine.Facts{}, nil, engine.Classify(ctx, "policy", e.At.String(), err)
	}
	if id == "" {
		return facts, nil, nil
	}
	c, err := e.container(ctx, containerOf(id))
	if err != nil {
		return engine.Facts{}, nil, engine.Classify(ctx, "policy", id, err)
	}
	return facts, c.HostConfig, nil
}

// reachesOut reports whether the policy allows addresses outside of the sandbox.
func reachesOut(spec core.Spec) bool {
	return spec.Network.Mode == core.NetworkAll || spec.Network.Mode == core.NetworkAllow
}

// limit reports how an engine with these facts holds a limit of a container.
func limit(f engine.Facts, e *core.Enforcement, spec core.Spec) {
	e.How = "the engine's control group"
	holds := map[string]bool{"cpu": f.CPU, "memory": f.Memory, "processes": f.Processes, "disk": f.Disk}[e.Field]
	switch {
	case !holds:
		e.Strength, e.How, e.Gap = core.Unenforced, "nothing", "the engine reports that it cannot limit "+e.Field
	case e.Field == "processes":
		e.Strength, e.Gap = core.Partial, fmt.Sprintf(
			"the limit also counts the threads of sb's own processes, so it is %d", spec.Processes+pidsOfOurs,
		)
	case e.Field == "memory" && !f.Swap:
		e.Strength, e.Gap = core.Partial, fmt.Sprintf(
			"the engine does not limit swap: beyond %s pages can be swapped out", spec.Memory,
		)
	case e.Field == "disk":
		e.How = "a quota of the engine's storage"
		if f.Storage == "btrfs" {
			// Linux 6.18 logs: "qgroup marked inconsistent, to be deleted qgroup has non-zero numbers".
			e.Strength, e.Gap = core.Partial, "btrfs may stop counting when a container is removed, until: btrfs quota rescan"
		}
	}
}

// compare reports a limit that a container lacks: the engine dropped it, or a user changed it.
func compare(e *core.Enforcement, has *container.HostConfig, spec core.Spec) {
	want, have := int64(0), int64(0)
	switch e.Field {
	case "cpu":
		want, have = int64(spec.CPU*1e9), has.NanoCPUs
		if have == 0 && has.CPUPeriod > 0 { // Podman and "docker update --cpu-quota"
			have = has.CPUQuota * 1e9 / has.CPUPeriod
		}
	case "memory":
		want, have = int64(spec.Memory), has.Memory
	case "processes":
		want = int64(spec.Processes + pidsOfOurs)
		if has.PidsLimit != nil {
			have = *has.PidsLimit
		}
	default:
		return // the engine does not report the bound of the layer
	}
	if have <= 0 || have > want {
		limit := "no limit"
		if have > 0 {
			limit = fmt.Sprintf("a limit of %d instead of %d", have, want)
		}
		e.Strength, e.Gap = core.Unenforced, "the engine has "+limit+" for this container"
	}
}

// isName reports whether an entry of an allow-list is a domain, not a CIDR.
func isName(allowed string) bool {
	_, err := netip.ParsePrefix(allowed)
	return err != nil
}
