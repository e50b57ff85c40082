// Package atomicfile replaces whole files: readers and a killed writer leave the old content or the new. It is the one
// place that writes by temporary file and rename. It imports the standard library only, and every package may import
// it. Start with Write.
//
// Two writers work in their own way: core/providers/local/store, whose tests kill it between two changes of the disk,
// and core/agent/inside, which replaces files through descriptors because the guest is hostile.
package atomicfile
