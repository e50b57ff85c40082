// Package modaltest is a server that behaves like Modal for its SDKs. It has the control plane and the task command
// router, over gRPC in plaintext on loopback. Its sandboxes are real ones of another provider. It serves the tests of
// the Modal provider and "sb modal serve", for programs with a Modal SDK.
//
// Its limits: it builds only images of registries that its backend can run. It has no GPU, but accepts and records
// requests for one. It has no functions, classes or queues. Only its sandboxes can outlive the process, until their
// timeout.
//
// The package has more than 30 files because it is one server: each file has the calls for one kind of thing (apps,
// images, volumes, tunnels), and all of them share its state. It imports core; a backend is any core.Provider. Start
// with server.go, then sandboxes.go and router.go.
package modaltest
