// Package sparse writes files with holes: long runs of zeros take no room on the disk.
// It imports the standard library only.
// Start with Writer.
package sparse
