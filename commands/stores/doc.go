// Package stores holds the commands for the objects that providers keep: volumes, secrets, images, apps, environments.
//
// It imports commands/internal/cli and core/service, and no other group. Each file is named after its noun. Start with
// volume.go: NewX makes the command and runX does the work.
package stores
