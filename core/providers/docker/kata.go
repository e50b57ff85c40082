package docker

import (
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// inKata says whether a runtime's name is one of Kata's: "kata", "kata-runtime", "io.containerd.kata.v2", "io.containerd.kata-qemu.v2".
func inKata(runtime string) bool {
	return strings.HasPrefix(runtime, "kata") || strings.HasPrefix(runtime, "io.containerd.kata")
}

// lostInKata are the capabilities that a container has and one in Kata's machine has not. Kata 1.13 to 3 leave the bound of processes
// out of what they tell the machine.
func lostInKata(c core.Capability) bool { return c == core.CapProcesses }
