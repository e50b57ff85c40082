// Package service holds every operation of sb: validation, placement, references, quotas, audit, events. All frontends
// call a group of Service and never a provider. It imports core and the standard library.
//
// It has more than 30 files because each operation has its own. Start with service.go, and then:
//
//   - Sandboxes: launch.go, life.go, fork.go, snapshot.go, checkpoint.go, move.go, list.go, find.go, probe.go
//   - Execs, Files and Ports: exec.go, files.go, file_watch.go, forward.go, tunnel.go
//   - Stores: inventory.go and the files named after a store; prune.go removes unused objects
//   - Policy: enforce.go, network.go, denial.go; placement.go, default_limits.go, template.go and scope.go for a launch
//   - Providers and Records: service.go, unsupported.go; audit.go, recorded.go, cost.go, price.go, broker.go, events.go
package service
