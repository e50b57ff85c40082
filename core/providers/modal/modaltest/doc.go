// Package modaltest is Modal's server as its SDKs see it: control plane and task command router over
// gRPC, plaintext on loopback, whose sandboxes are real ones of another provider. It is what the Modal
// provider is tested against, and what "sb modal serve" offers to programs written with a Modal SDK.
//
// What it is not: it builds no image from a registry that its backend cannot run, it has no GPU (requests
// are accepted and recorded), no functions, classes or queues, and nothing in it outlives the process but
// the sandboxes, which end at their timeout.
//
// The package has more than 30 files because it is one server: each file has the calls for one kind of thing (apps,
// images, volumes, tunnels), and all of them share its state. It imports core; a backend is any core.Provider. Start
// with server.go, then sandboxes.go and router.go.
package modaltest
