package docker

// isolation says what stands between a sandbox and the engine's machine.
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
