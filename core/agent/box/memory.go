//go:build linux

package box

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// memoryKills returns how often the kernel killed a process of this sandbox for lack of memory. The number comes from
// the control group, version 2 or 1; without one it is -1.
func (b *Box) memoryKills() int {
	for _, file := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			fields := bytes.Fields(line)
			if len(fields) == 2 && string(fields[0]) == "oom_kill" {
				if n, err := strconv.Atoi(string(fields[1])); err == nil {
					return n
				}
			}
		}
	}
	return -1
}

// explain sets the reason of exit if the kernel killed the command for lack of memory. before is memoryKills at the
// command's start.
func (b *Box) explain(exit *core.Exit, before int) {
	limit := b.config.Spec.Memory
	if limit == 0 || before < 0 || exit.Code != 128+int(unix.SIGKILL) || b.memoryKills() <= before {
		return
	}
	exit.Reason = core.ReasonMemory
	exit.Message = fmt.Sprintf("memory use exceeded the limit of %s", limit)
}
