// Package clients adds sb to the configuration of assistants, and removes it.
//
// It imports core and editors of JSON and TOML. Start with clients.go.
package clients
