//go:build linux

package inside

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// exitUsage is the exit code for a command line that guest did not make.
const exitUsage = 125

// Main runs the mode of the agent that argv names, and returns the exit code.
func Main(argv []string, stdin, stdout, stderr *os.File) int {
	// Processes in the sandbox may not trace this process or read its memory. In a container, root can stop it before
	// this, and in gVisor it can write to its descriptors, so sb trusts no answer. Programs that this process starts can
	// be traced.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	return run(argv, stdin, stdout, stderr)
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
	_, _ = io.WriteString(stderr, "sb starts sb-guest in a sandbox; it cannot be started by hand\n")
	return exitUsage
}
