// Package client connects to Modal's control plane: it finds the credentials, logs in, caches ids, and gives Modal's
// errors a kind. It knows nothing of sandboxes.
//
// It imports core, Modal's SDK and a TOML parser; package modal imports it. Start with Open in client.go.
package client
