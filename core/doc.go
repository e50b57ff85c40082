// Package core holds the nouns and contracts of sb: Spec, Sandbox, Exec, Policy, Error, Provider and the optional
// interfaces of providers. A sandbox is an isolated machine; a provider runs sandboxes in one place. The operations are
// in core/service. This package imports the standard library and golang.org/x/sys. Start with sandbox.go, spec.go and
// provider.go.
//
// It is one package although it has more than 40 files. Each file is one noun, with the optional interface of the
// provider that manages it. The nouns need each other. Spec holds quantities, secrets and probes. Sandbox and
// Checkpoint hold a Spec. Provider takes and returns them all. A check of a field returns an Error. Checks are methods
// of the nouns. Code that only uses the nouns is a separate package, such as core/price and core/redact.
package core
