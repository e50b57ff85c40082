//go:build !linux

// Command sb-runtime runs on Linux only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "sb-runtime runs on Linux only")
	os.Exit(1)
}
