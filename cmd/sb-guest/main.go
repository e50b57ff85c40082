//go:build linux

// Command sb-guest is the agent that sb runs inside sandboxes.
package main

import (
	"os"

	"github.com/seed-0724f904/sb/core/agent/inside"
)

func main() { os.Exit(inside.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }
