// Package service holds every operation of sb: validation, placement, references, quotas, audit, events. All frontends
// call Service and never a provider. It imports core and the standard library.
// Start with service.go; each operation is in the file named after it.
package service
