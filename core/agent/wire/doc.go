// Package wire is the one protocol between sb and the supervisors of sandboxes: requests, answers and errors, and their
// version. Frames carry them to a container (frame.go), a gRPC socket to this machine (providers/local/socket). The package
// imports core and core/agent/guest. Start with Request.
package wire
