// Package service holds every operation of sb: validation, placement, references, quotas, audit, events. All frontends
// call Service and never a provider. It imports core and the standard library.
//
// It has more than 30 files because each operation has its own. Start with service.go, and then:
//
//   - sandboxes: launch.go, life.go, fork.go, snapshot.go, checkpoint.go, move.go, list.go, find.go, prune.go
//   - commands and files: exec.go, files.go, file_watch.go, probe.go, forward.go, tunnel.go
//   - stores: inventory.go and the files named after a store
//   - policy and placement: placement.go, wishes.go, template.go, scope.go, enforce.go, network.go, unsupported.go
//   - records: audit.go, recorded.go, cost.go, price.go, broker.go, events.go
package service
