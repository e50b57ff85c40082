// Package origin records where the files of a sandbox came from: a directory of this machine that was pushed, or that
// the sandbox sees copy-on-write. The record has the state of each file at that time. So a later comparison tells the
// changes of the sandbox from those of this machine.
//
// It imports internal/atomicfile, internal/seal and the standard library only. Start with Origin in origin.go.
package origin
