// Package sandboxes holds the commands that launch, list, change and end sandboxes.
//
// It imports commands/internal/cli and core/service, and no other group. Each file is named after its noun. Start with
// launch.go: NewX makes the command and runX does the work.
package sandboxes
