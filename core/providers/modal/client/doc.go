// Package client connects to Modal's control plane: it finds the credentials, logs in, caches ids, and classifies
// Modal's errors. It does not handle sandboxes.
//
// It imports core, Modal's SDK and a TOML parser; package modal imports it. Start with Open in client.go.
package client
