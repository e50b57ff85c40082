package docker

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// inGVisor says whether a runtime's name is one of gVisor's: "runsc", "runsc-kvm", "io.containerd.runsc.v1".
func inGVisor(runtime string) bool {
	return strings.HasPrefix(runtime, "runsc") || strings.HasPrefix(runtime, "io.containerd.runsc.")
}

// lostInGVisor are the capabilities that a container has and one under runsc has not. Its network stack takes no routing
// rules; the bound of processes is hit by gVisor's own threads, and then nothing in the sandbox goes on; what is written goes to
// a file of gVisor's that a stop removes.
func lostInGVisor(c core.Capability) bool {
	return slices.Contains([]core.Capability{
		core.CapNetAll, core.CapNetAllow, core.CapNetInternal, core.CapPorts, core.CapProcesses, core.CapPersist,
	}, c)
}

// filesSeen refuses what needs the engine to see a container's files, which under runsc it does not.
func (e *engine) filesSeen(ctx context.Context, op, id string) error {
	found, err := e.container(ctx, containerOf(id))
	if err != nil {
		return classify(ctx, op, id, err)
	}
	if found.HostConfig != nil && inGVisor(found.HostConfig.Runtime) {
		return core.Errorf(core.KindUnsupported, "docker."+op, id, "the engine does not see what is written under its runtime %s", found.HostConfig.Runtime).
			WithHint("copy files out with: sb pull")
	}
	return nil
}
