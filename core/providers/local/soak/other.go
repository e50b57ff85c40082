//go:build !linux

// Command soak runs on Linux only, as the local provider does.
package main

import "os"

func main() {
	_, _ = os.Stderr.WriteString("soak: the local provider runs on Linux only\n")
	os.Exit(2)
}
