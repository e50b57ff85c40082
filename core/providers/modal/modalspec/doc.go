// Package modalspec has the settings of a spec that only Modal supports, the value of core.Spec.Modal. It is a separate
// package, so that readers of files and flags have the fields without linking Modal's SDK. It imports core only.
//
// Start with Section.
package modalspec
