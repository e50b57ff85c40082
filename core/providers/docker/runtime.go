package docker

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// isolation describes the barrier between a sandbox and the engine's machine.
func isolation(runtime string) string {
	switch {
	case inGVisor(runtime):
		return "a container with gVisor's kernel: the engine's runtime " + runtime
	case inKata(runtime):
		return "a container in a virtual machine of its own: the engine's runtime " + runtime
	case runtime != "":
		return "a container of the engine's runtime " + runtime
	}
	return "a container: namespaces, control groups and seccomp on the engine's kernel"
}

// inGVisor reports whether a runtime's name is one of gVisor's: "runsc", "runsc-kvm", "io.containerd.runsc.v1".
func inGVisor(runtime string) bool {
	return strings.HasPrefix(runtime, "runsc") || strings.HasPrefix(runtime, "io.containerd.runsc.")
}

// lostInGVisor reports whether a capability of containers is missing under runsc. gVisor's network stack has no routing
// rules. gVisor's own threads count toward the limit of processes, and at the limit the whole sandbox hangs. Changes to
// files go to a file of gVisor, which a stop removes.
func lostInGVisor(c core.Capability) bool {
	return slices.Contains([]core.Capability{
		core.CapNetAll, core.CapNetAllow, core.CapNetInternal, core.CapNetHost, core.CapDNS, core.CapPorts,
		core.CapProcesses, core.CapPersist,
	}, c)
}

// filesSeen refuses operations for which the engine has to see a container's files. Under runsc, it does not.
func (e containers) filesSeen(ctx context.Context, op, id string) error {
	found, err := e.container(ctx, containerOf(id))
	if err != nil {
		return engine.Classify(ctx, op, id, err)
	}
	if found.HostConfig != nil && inGVisor(found.HostConfig.Runtime) {
		return core.Errorf(core.KindUnsupported, "docker."+
			op, id, "the engine cannot read files that are written under its runtime %s", found.HostConfig.Runtime).
			WithHint("copy files out with: sb pull")
	}
	return nil
}

// inKata reports whether a runtime's name is one of Kata's: "kata", "kata-runtime", "io.containerd.kata.v2",
// "io.containerd.kata-qemu.v2".
func inKata(runtime string) bool {
	return strings.HasPrefix(runtime, "kata") || strings.HasPrefix(runtime, "io.containerd.kata")
}

// lostInKata reports whether a capability of containers is missing in Kata's machine. Kata 1.13 to 3 do not pass the
// bound of processes to the machine.
func lostInKata(c core.Capability) bool { return c == core.CapProcesses }
