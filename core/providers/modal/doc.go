// Package modal runs sandboxes on Modal, the cloud with the GPUs, over its official Go SDK. Calls that the SDK does not
// export use its public protobufs, over the same connection. A sandbox's tags carry its launch spec and its lease; the
// disk has only a cache of ids, and the names and specs of checkpoints.
//
// This package has the operations on sandboxes and stores. Package client connects to Modal, package files reads and
// writes files, and package modaltest imitates Modal's servers. It imports core and Modal's SDK. Start with Launch in
// launch.go; exec.go has commands, and router.go the connection to a sandbox's machine.
package modal
