// Package box is the first process of a container. It runs commands, ends the sandbox in time, and reaps orphans. It
// needs no file of the image.
//
// It imports core and core/agent. Start with Run; host.go starts the commands.
package box
