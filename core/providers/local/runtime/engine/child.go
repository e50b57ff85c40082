//go:build linux

package engine

import (
	"path/filepath"
	"strings"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
	"gvisor.dev/gvisor/runsc/fsgofer/extension"

	"github.com/seed-0724f904/sb/core/providers/local/runtime/hostview"
)

// bundlePrefix is the prefix of a bundle's name. The memory limit in bytes, or 0, follows it.
const bundlePrefix = "bundle-"

// RunChild runs this process as the sentry or the gofer if argv is a command line of gVisor. It then does not return.
// gVisor names them runsc-sandbox and runsc-gofer, and executes each twice under that name. For umount the first
// argument is the command.
func RunChild(argv []string) {
	if len(argv) == 0 {
		return
	}
	child := argv[0] == "runsc-sandbox" || argv[0] == "runsc-gofer"
	for _, arg := range argv[1:] {
		if !strings.HasPrefix(arg, "-") {
			child = child || arg == "umount"
			break
		}
	}
	if !child {
		return
	}
	showTotalMemory(argv)
	if argv[0] == "runsc-sandbox" {
		sendBrokenPipes()
	}
	if argv[0] == "runsc-gofer" {
		_ = allowRootImage(argv) // without it the gofer ends with an error
		extension.Register(hostview.Extension{Mounts: hostMounts()})
	}
	cli.Run(map[util.SubCommand]string{new(cmd.Boot): "", new(cmd.Gofer): "", new(cmd.Umount): ""}, nil)
}

// showTotalMemory replaces the host's amount of memory in the sentry's command line by the sandbox's limit. Without
// cgroups gVisor has no setting for that. The limit is in the bundle's name, because the sentry has an empty
// environment and cannot read this program's files.
func showTotalMemory(argv []string) {
	limit := ""
	for i, arg := range argv {
		if bundle, ok := strings.CutPrefix(arg, "--bundle="); ok {
			limit, _ = strings.CutPrefix(filepath.Base(bundle), bundlePrefix)
		}
		if arg == "--total-memory" && i+1 < len(argv) && limit != "" && limit != "0" {
			argv[i+1] = limit
		}
	}
}
