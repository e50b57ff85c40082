// Package commands is sb's command line. It turns arguments and flags into options, options into operations of
// core/service, and results into text, JSON and exit codes.
//
// Every noun, and every verb without one, has a file with three parts in this order: XOptions (what it
// depends on, then what flags set), NewX(app) (the cobra command) and runX(ctx, opts) (the work).
// Dependencies that can fail or touch the disk are functions of App, called only
// where they are needed: help, completion scripts and version work with a broken configuration.
//
// It may import all groups of commands, core/service and configs, and no provider. Start with NewRoot in root.go, then
// Main in main.go.
package commands
