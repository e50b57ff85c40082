//go:build linux

// Command sb-runtime is the part of sb that links gVisor. sb starts one for each sandbox on this machine, as its
// supervisor. The supervisor starts it again as the sandbox's kernel and file server.
package main

import (
	"os"

	"github.com/seed-0724f904/sb/core/providers/local/runtime/engine"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/supervisor"
)

func main() {
	if exit, child := engine.RunChild(os.Args); child {
		os.Exit(exit)
	}
	os.Exit(supervisor.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
