//go:build linux

// Command sb-guest is the helper that sb runs inside a sandbox. It comes in by
// file descriptor, so that it needs nothing of the image: no shell, no tar, no
// libc. Package guest describes its command line and its streams.
package main

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/providers/docker/wire"
)

// exitUsage is the exit code for a command line that guest did not make.
const exitUsage = 125

func main() {
	// What runs in the sandbox may not trace this process or look into its memory. In a container, root can come before this, and in gVisor
	// write to its descriptors: sb believes no answer. Programs that this one starts can be traced.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

func run(argv []string, stdin, stdout, stderr *os.File) int {
	mode := ""
	if len(argv) > 1 {
		mode = argv[1]
	}
	switch mode {
	case guest.ModeInit:
		return runInit()
	case guest.ModeSpawn:
		return runSpawn(stdin, stdout, stderr)
	case guest.ModeHostname:
		if len(argv) != 3 || syscall.Sethostname([]byte(argv[2])) != nil {
			return exitFailed
		}
		return 0
	case wire.ModeBox:
		return runBox(stdin, stdout, stderr)
	case wire.ModeCall:
		return runCall(stderr)
	case guest.ModePTY:
		return runPTY(argv[2:], stdin, stdout, stderr)
	case guest.ModeFiles:
		return runFiles(argv[2:], stdin, stdout, stderr)
	case guest.ModeWatch:
		return runWatch(argv[2:], stdin, stdout, stderr)
	case guest.ModeDial:
		return runDial(argv[2:], stdin, stdout, stderr)
	case "--version":
		_, _ = fmt.Fprintf(stdout, "sb-guest protocol %d\n", guest.Version)
		return 0
	}
	_, _ = io.WriteString(stderr, "sb-guest is started by sb inside a sandbox; it has no use of its own\n")
	return exitUsage
}
