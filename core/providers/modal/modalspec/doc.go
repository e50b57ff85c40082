// Package modalspec has the settings of a spec that only Modal supports, the value of core.Spec.Modal. It is a package
// of its own, so that readers of files and flags know the fields and do not link Modal's SDK. It imports core only.
//
// Start with Section.
package modalspec
