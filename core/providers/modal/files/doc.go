// Package files reads and writes the files of a sandbox on Modal. Each operation runs a small program in the sandbox:
// Modal's own file tool, a script for the image's shell, or the image's tar.
//
// It imports core and the SDK's types; the caller provides the function that starts a program (Programs). Package modal
// imports it. Start with files.go, and operation.go for the run of one program.
package files
