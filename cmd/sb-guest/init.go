//go:build linux

package main

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

// runInit is pid 1: it takes in orphans until the sandbox is killed. No signal ends it. A
// file size limit that is broken (SIGXFSZ) then hits the offender instead of the whole sandbox.
func runInit() int {
	// Without a collector the runtime has no timer that would wake an idle sandbox.
	debug.SetGCPercent(-1)
	signal.Ignore()
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	for {
		reap()
		<-children
	}
}

// reap collects every child that has ended.
func reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
