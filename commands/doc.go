// Package commands is sb's command line. It turns arguments and flags into options, options into operations of
// core/service, and results into text, JSON and exit codes.
//
// Every noun, and every verb without one, has a file with three parts. XOptions has the dependencies, then the values
// of flags. NewX(app) makes the cobra command. runX(ctx, opts) does the work. Dependencies that can fail or touch the
// disk are functions of App, called on first use. So help, completion scripts and version work with a broken
// configuration.
//
// It may import all groups of commands, core/service and configs, and no provider. Start with NewRoot in root.go, then
// Main in main.go.
package commands
