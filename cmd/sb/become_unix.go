//go:build unix

package main

import (
	"os"
	"syscall"
)

// become replaces this process with another program, which gets the same arguments and environment.
func become(program string) error {
	return syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ()) //nolint:gosec // sb's own helper
}
