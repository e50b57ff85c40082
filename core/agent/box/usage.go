//go:build linux

package box

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/wire"
)

// ticksPerSecond is the unit of times in /proc: USER_HZ is 100 for programs on every architecture (time(7)).
const ticksPerSecond = 100

// usage adds up the usage of the sandbox's processes, without this process and those that carry calls. Memory is
// anonymous and shared memory, without pages of files. A process that ends during the measurement counts in part.
func usage() (core.Stats, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return core.Stats{}, err
	}
	var total core.Stats
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		dir := "/proc/" + entry.Name()
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		status, _ := os.ReadFile(dir + "/status") // for a process that has ended, only its CPU time counts
		if isCall(stat, status) {
			continue
		}
		own, children := cpuTimes(stat)
		total.CPU += children // of children that have ended
		if pid == os.Getpid() {
			continue
		}
		total.CPU += own
		total.Processes++
		total.Memory += memoryOf(status)
	}
	return total, nil
}

// isCall reports, from a process's /proc/PID/stat and status, whether it carries a call for the engine. The engine
// starts such a process without a parent, as the user for calls. Its CPU time vanishes when it ends, so counting it
// would make the total decrease.
func isCall(stat, status []byte) bool {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 || string(fields[1]) != "0" {
		return false
	}
	uid, _, _ := strings.Cut(wire.CallUser, ":")
	for line := range bytes.Lines(status) {
		if ids, ok := bytes.CutPrefix(line, []byte("Uid:")); ok {
			is := bytes.Fields(ids)
			return len(is) > 0 && string(is[0]) == uid
		}
	}
	return false
}

// cpuTimes returns the CPU time of a process and of the children that it waited for, from /proc/PID/stat. It is 0 for
// unreadable content.
func cpuTimes(stat []byte) (own, children time.Duration) {
	// proc(5): the name, in parentheses, may hold any character. utime, stime, cutime and cstime are fields 12 to 15 after
	// it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const first = 11
	if len(fields) < first+4 {
		return 0, 0
	}
	var times [4]time.Duration
	for i := range times {
		ticks, err := strconv.ParseInt(string(fields[first+i]), 10, 64)
		if err != nil {
			return 0, 0
		}
		times[i] = time.Duration(ticks) * time.Second / ticksPerSecond
	}
	return times[0] + times[1], times[2] + times[3]
}

// memoryOf returns the anonymous and shared memory of a process from /proc/PID/status.
func memoryOf(status []byte) core.Bytes {
	var sum core.Bytes
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "RssAnon" && string(name) != "RssShmem" {
			continue
		}
		if fields := bytes.Fields(value); len(fields) > 0 {
			if kib, err := strconv.ParseInt(string(fields[0]), 10, 64); err == nil {
				sum += core.Bytes(kib) * core.KiB
			}
		}
	}
	return sum
}
