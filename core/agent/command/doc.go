// Package command runs the commands of one sandbox and keeps their journal, for supervisors that bring a Host.
// It imports core, and guest, journal, pipes, program and wire of core/agent.
// Start with Commands.Run.
package command
