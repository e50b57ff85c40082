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

// memoryKills counts how often the kernel ended a process of this sandbox for want of memory,
// as its control group tells, of version 2 or 1; -1 when it does not.
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

// explain says when a command was ended for want of memory: before is memoryKills at its start.
func (b *Box) explain(exit *core.Exit, before int) {
	limit := b.config.Spec.Memory
	if limit == 0 || before < 0 || exit.Code != 128+int(unix.SIGKILL) || b.memoryKills() <= before {
		return
	}
	exit.Reason = core.ReasonMemory
	exit.Message = fmt.Sprintf("memory use went over the limit of %s", limit)
}
