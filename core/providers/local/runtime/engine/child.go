//go:build linux

package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sandboxsetup"
	"gvisor.dev/gvisor/runsc/cmd/util"
	"gvisor.dev/gvisor/runsc/fsgofer/extension"

	"github.com/seed-0724f904/sb/core/providers/local/runtime/hostdir"
	"github.com/seed-0724f904/sb/core/providers/local/runtime/hostview"
)

// bundleName returns the name of a bundle's directory. It has limits that the sentry needs: the sentry has an empty
// environment, and cannot read this program's files.
func bundleName(l Limits) string { return fmt.Sprintf("bundle-%d-%d", l.Memory, l.Processes) }

// limitsOf returns the limits in the sentry's command line.
func limitsOf(argv []string) (l Limits, err error) {
	for _, arg := range argv {
		if bundle, ok := strings.CutPrefix(arg, "--bundle="); ok {
			_, err = fmt.Sscanf(filepath.Base(bundle), "bundle-%d-%d", &l.Memory, &l.Processes)
			return l, err
		}
	}
	return l, errors.New("the command line has no bundle")
}

// RunChild runs this process as a child of gVisor if argv is one of its command lines: the sentry, the gofer, or the
// helper of each, which unmounts /proc. gVisor names the first two runsc-sandbox and runsc-gofer, and executes each
// twice under that name. For these RunChild does not return. For a helper it returns true and the exit code.
func RunChild(argv []string) (exit int, child bool) {
	if len(argv) == 0 {
		return 0, false
	}
	if slices.Equal(argv[1:], unmountProc()) {
		return runUnmountProc(), true
	}
	if argv[0] != "runsc-sandbox" && argv[0] != "runsc-gofer" {
		return 0, false
	}
	if argv[0] == "runsc-sandbox" {
		limits, err := limitsOf(argv)
		if err != nil {
			panic(err) // it must not run without its limits
		}
		showTotalMemory(argv, limits.Memory)
		if limits.Processes > 0 {
			limitTasks(limits.Processes)
		}
		sendBrokenPipes()
	}
	if argv[0] == "runsc-gofer" {
		_ = allowRootImage(argv) // without it the gofer ends with an error
		extension.Register(hostview.Extension{Mounts: hostMounts()})
		extension.Register(hostdir.Extension{FDs: openFDs(argv)})
	}
	cli.Run(map[util.SubCommand]string{new(cmd.Boot): "", new(cmd.Gofer): ""}, nil)
	return 0, true
}

// unmountProc returns the helper's arguments, as sandboxsetup.ExecProcUmounter makes them.
func unmountProc() []string { return []string{"umount", "--sync-fd=3", "/proc"} }

// runUnmountProc unmounts /proc when one byte arrives on descriptor 3, and returns the exit code. gVisor's own command
// does the same, after it has registered all flags of gVisor and prepared its log.
func runUnmountProc() int {
	if n, err := os.NewFile(3, "sync").Read(make([]byte, 1)); n != 1 {
		_, _ = fmt.Fprintln(os.Stderr, "waiting to unmount /proc:", err) //nolint:forbidigo // no other stream
		return 1
	}
	if err := unix.Unmount("/proc", unix.MNT_DETACH); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "unmounting /proc:", err) //nolint:forbidigo // no other stream
		return 1
	}
	return 0
}

// showTotalMemory replaces the host's amount of memory in the sentry's command line by the sandbox's limit. Without
// cgroups gVisor has no setting for that.
func showTotalMemory(argv []string, limit int64) {
	for i, arg := range argv {
		if arg == "--total-memory" && i+1 < len(argv) && limit > 0 {
			argv[i+1] = strconv.FormatInt(limit, 10)
		}
	}
}

// openFDs opens the directory of this process's open files if argv is the gofer's last command line. The gofer's root
// then has that directory, and no other part of /proc. -1 is no directory.
func openFDs(argv []string) int {
	if !slices.Contains(argv, "--setup-root=false") {
		return -1
	}
	fd, err := unix.Open(sandboxsetup.ProcFDBindMount, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1 // without it the volumes' files cannot be opened
	}
	return fd
}
