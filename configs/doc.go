// Package configs reads what the user has set: config.yaml in the place that XDG names, and
// SB_* variables above it. Flags stand above both and are the commands' business. A
// loaded Config is a value that nobody changes.
package configs
