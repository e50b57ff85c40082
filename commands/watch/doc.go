// Package watch holds the dashboard, and the commands that report events, usage and costs.
//
// It imports commands/internal/cli and core/service, and no other group. Each file is named after its noun. Start with
// events.go: NewX makes the command and runX does the work.
package watch
