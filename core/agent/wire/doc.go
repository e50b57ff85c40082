// Package wire is the one protocol between sb and the supervisors of sandboxes: requests, answers, errors, version.
// frame.go carries them to a container, providers/local/socket to this machine. It imports core and core/agent/guest.
// Start with Request.
package wire
