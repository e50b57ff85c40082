// Package pipes makes the pipes between a command and its supervisor.
//
// It imports golang.org/x/sys only. Start with pipes.go.
package pipes
