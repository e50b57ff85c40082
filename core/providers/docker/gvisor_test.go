package docker

import (
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// TestRuntimeCapabilities checks that features known to fail under gVisor are not offered there.
func TestRuntimeCapabilities(t *testing.T) {
	for runtime, gvisor := range map[string]bool{
		"": false, "runc": false, "runsc": true, "runsc-kvm": true, "io.containerd.runsc.v1": true,
	} {
		p, err := New(Options{Runtime: runtime})
		if err != nil {
			t.Fatal(err)
		}
		caps := p.Capabilities()
		if !caps.Can(core.CapNetNone) || !caps.Can(core.CapMemory) || !strings.Contains(caps.Isolation, runtime) {
			t.Errorf("%q: %+v", runtime, caps)
		}
		for _, c := range []core.Capability{
			core.CapNetAll, core.CapNetAllow, core.CapNetInternal, core.CapPorts, core.CapProcesses, core.CapPersist,
		} {
			if caps.Can(c) == gvisor {
				t.Errorf("%q: %s is %v", runtime, c, caps.Can(c))
			}
		}
	}
}
