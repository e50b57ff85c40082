package core

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// BootID returns the id of this boot of the machine (random(4), proc/sys/kernel/random/boot_id); "" if unknown.
func BootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// ProcessStart returns when a process started, in clock ticks since boot (proc(5), stat field 22). It returns false if
// there is no such process or it is a zombie.
func ProcessStart(pid int) (uint64, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// The name in field 2 may contain blanks and parentheses. Field 3 begins after its last ')'.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 20 || bytes.Equal(fields[0], []byte("Z")) {
		return 0, false
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	return start, err == nil
}
