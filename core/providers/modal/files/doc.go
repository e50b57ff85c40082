// Package files reads and writes the files of a sandbox on Modal. Each operation runs a small program in the sandbox:
// Modal's own file tool where it can do it, else a script for the image's shell, or its tar.
//
// It imports core and the SDK's types; the calls that start a program are its caller's (Programs). Package modal
// imports it. Start with files.go, and operation.go for the run of one program.
package files
