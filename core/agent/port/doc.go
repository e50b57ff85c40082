// Package port carries connections to ports of the sandbox in which the helper runs.
//
// It imports golang.org/x/sys only. Start with port.go.
package port
