//go:build linux

package inside

import (
	"fmt"
	"os"

	"github.com/seed-0724f904/sb/core/agent/box"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// runBox is the first process of a container.
func runBox(stdin, stdout, stderr *os.File) int {
	if os.Getpid() != 1 {
		_, _ = fmt.Fprintln(stderr, "sb-guest box is the first process of a container and cannot be started by hand")
		return exitUsage
	}
	return box.Run(wire.DirOf(os.Args[0]), stdin, stdout)
}

// runCall carries one call to the box.
func runCall(stderr *os.File) int {
	if err := box.Call(); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return 0
}
