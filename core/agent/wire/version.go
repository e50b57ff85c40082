package wire

import "github.com/seed-0724f904/sb/core"

// Version is the version of the protocol. A sandbox keeps the program that it was launched with, so client and
// supervisor may differ. Each side sends its version first. Version 1 had none in containers, version 3 no images on
// this machine, version 4 did not close a container's way to its host.
const Version = 5

// CheckVersion returns a clear error if a client and a supervisor do not understand each other: core.KindUnavailable.
func CheckVersion(client, supervisor int) error {
	if client == supervisor {
		return nil
	}
	return core.Errorf(core.KindUnavailable, "connect", "",
		"this sb speaks protocol %d, the sandbox's supervisor %d", client, supervisor).
		WithHint("use the sb that launched it, or terminate the sandbox and launch it again")
}
