//go:build linux && !amd64

package supervisor

// refusedHere is empty: refused has the system calls of this architecture.
func refusedHere() []uint32 { return nil }
