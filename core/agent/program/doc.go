// Package program finds programs in a sandbox as execvp(3) does.
//
// It imports golang.org/x/sys only. Start with program.go.
package program
