// Package exec holds the commands that run, watch and end commands in sandboxes.
//
// It imports commands/internal/cli and core/service, and no other group. Each file is named after its noun. Start with
// exec.go: NewX makes the command and runX does the work.
package exec
