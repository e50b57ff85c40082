//go:build linux

package inside

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

// runInit is pid 1: it takes in orphans and runs the commands that "sb-guest spawn" brings until the sandbox is killed.
// No signal ends it. A file size limit that is broken (SIGXFSZ) then hits the offender instead of the whole sandbox.
func runInit() int {
	// Without a collector the runtime has no timer that would wake an idle sandbox. What commands leave is
	// collected when they end.
	debug.SetGCPercent(-1)
	// Taken, not ignored: what is ignored here would be ignored by the commands, too.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals)
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	var nursery nursery
	go func() {
		for range signals {
		}
	}()
	go nursery.serve()
	for {
		nursery.reap()
		<-children
	}
}

// reap collects every child that has ended.
func (n *nursery) reap() {
	for {
		var status syscall.WaitStatus
		// Under the lock: a child is known before its end can be seen.
		n.mu.Lock()
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == nil && pid > 0 {
			n.ended(pid, status)
		}
		n.mu.Unlock()
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
