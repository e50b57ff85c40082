// Package box is the first process of a container: it runs commands, ends the sandbox in time, and takes in orphans.
// It needs nothing of the image. It imports core and core/agent.
// Start with Run; host.go starts the commands.
package box
