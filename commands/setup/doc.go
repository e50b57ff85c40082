// Package setup holds the commands that set up and check sb: doctor, login, settings, completion.
//
// It imports commands/internal/cli and core/service, and no other group. Each file is named after its noun. Start with
// doctor.go: NewX makes the command and runX does the work.
package setup
