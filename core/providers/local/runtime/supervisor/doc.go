// Package supervisor is the process that keeps one sandbox: it owns its kernel, network and lock, and keeps its lease.
// It imports core, core/agent, the local provider's packages and gRPC.
// Start with Main; host.go starts the commands.
package supervisor
