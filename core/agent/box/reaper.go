//go:build linux

package box

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper collects every child that ends: its own, and orphans that the kernel gave to the first process.
type reaper struct {
	mu       sync.Mutex
	children map[int]chan syscall.WaitStatus
}

func newReaper() *reaper { return &reaper{children: map[int]chan syscall.WaitStatus{}} }

// run reaps until done is closed.
func (r *reaper) run(done <-chan struct{}) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	for {
		r.reap()
		select {
		case <-ended:
		case <-done:
			return
		}
	}
}

func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if child, ok := r.children[pid]; ok {
			delete(r.children, pid)
			child <- status
		}
	}
}

// start runs a program. Its end comes on the channel, once.
func (r *reaper) start(program string, argv []string, attr *syscall.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(program, argv, attr)
	if err != nil {
		return 0, nil, err
	}
	ended := make(chan syscall.WaitStatus, 1)
	r.children[pid] = ended
	return pid, ended, nil
}

// signal sends a signal to the process group of a child. ESRCH: it has ended.
func (r *reaper) signal(pid int, number syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.children[pid]; !ok {
		return unix.ESRCH
	}
	return unix.Kill(-pid, number)
}
