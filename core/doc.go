// Package core holds the nouns and contracts of sb: Spec, Sandbox, Exec, Policy, Error, Provider and the optional
// interfaces of providers. A sandbox is an isolated machine; a provider runs sandboxes in one place. The operations are
// in core/service. This package imports the standard library and golang.org/x/sys.
// Start with sandbox.go, spec.go and provider.go.
package core
