// Package core is what sb does, without a screen, a shell or a wire: the domain
// types, the contract that every provider fulfils, and Service, the one seam
// that all frontends call.
//
// A sandbox is an isolated machine. A provider runs sandboxes in one place: on
// this machine, on a container engine, or in a cloud. Service validates what is
// asked, chooses the provider, resolves references to sandboxes, applies quotas,
// writes the audit log and publishes events. Frontends never talk to a provider.
//
// The package imports the standard library only.
package core
