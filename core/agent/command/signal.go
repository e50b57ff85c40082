//go:build linux

package command

import (
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// lastSignal and firstRealTime are the largest signal and SIGRTMIN of programs with glibc or musl.
const lastSignal, firstRealTime = 64, 34

// StopSignal returns the signal that asks the processes of a sandbox to end. With an entry command it is the image's
// stop signal: "SIGQUIT", "QUIT", "3", "SIGRTMIN+3". Otherwise, and for an unknown signal, it is SIGTERM. SIGKILL and
// SIGSTOP cannot ask.
func StopSignal(spec core.Spec, ofImage string) syscall.Signal {
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(ofImage), "SIG")
	signal := unix.SignalNum(name)
	if after, ok := strings.CutPrefix(name, "SIGRTMIN"); ok {
		offset, err := strconv.ParseUint("0"+strings.TrimPrefix(after, "+"), 10, 8)
		if err == nil && firstRealTime+offset <= lastSignal {
			signal = firstRealTime + syscall.Signal(offset)
		}
	} else if number, err := strconv.ParseUint(ofImage, 10, 8); err == nil && number <= lastSignal {
		signal = syscall.Signal(number)
	}
	if len(spec.Command) == 0 || signal == 0 || signal == unix.SIGKILL || signal == unix.SIGSTOP {
		return unix.SIGTERM
	}
	return signal
}
