// Package supervisor is the process that runs one sandbox. It owns the sandbox's kernel, network and lock, and enforces
// its lease. It imports core, core/agent, the local provider's packages and gRPC. Start with Main; host.go starts the
// commands.
package supervisor
