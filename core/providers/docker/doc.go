// Package docker runs sandboxes in containers of any engine with Docker's API, Podman included. Each container's first
// process is sb-guest. It runs commands, keeps their journal and ends the container when its lifetime is over, so
// nothing depends on a process of this machine. A container's labels describe its sandbox.
//
// This package has the provider's operations. Package engine connects to the engine, and package image pulls and builds
// images. It imports core and core/agent. It has more than 30 files because each has one optional interface of the
// provider, or one step of a launch. Start with Launch in launch.go; call.go has the calls to sb-guest.
package docker
