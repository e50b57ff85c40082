// Package files holds the commands that copy, read and write files.
//
// It imports commands/internal/cli and core/service, and no other group. Each file is named after its noun. Start with
// cp.go: NewX makes the command and runX does the work.
package files
