//go:build !linux

package main

import "os"

// main exists so that the module builds everywhere: sandboxes on this machine are Linux.
func main() {
	_, _ = os.Stderr.WriteString("sb-guest runs on Linux only\n")
	os.Exit(1)
}
