// Package command runs the commands of one sandbox and keeps their journal. A supervisor brings a Host that starts
// processes. The package imports core and parts of core/agent: guest, journal, pipes and wire. Start with Commands.Run.
package command
