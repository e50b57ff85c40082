//go:build linux

package inside

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

// runInit is pid 1. It reaps orphans and runs the commands of "sb-guest spawn" until the sandbox is killed. No signal
// ends it. So a violated file size limit (SIGXFSZ) affects the offender instead of the whole sandbox.
func runInit() int {
	// Without a collector the runtime has no timer that would wake an idle sandbox. Garbage is collected when commands
	// end.
	debug.SetGCPercent(-1)
	// Caught, not ignored: the commands would inherit ignored signals.
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
		// Under the lock, so that a child is recorded before its end is handled.
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
