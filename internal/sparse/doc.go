// Package sparse writes files with holes: long runs of zeros use no disk space.
// It imports the standard library only.
// Start with Writer.
package sparse
