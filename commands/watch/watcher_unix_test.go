//go:build unix

package watch

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A stop of the child is turned into SIGTSTP by what had the terminal when it was stopped: nothing is sent to a child
// with an open shell, which could handle it after the shell has ended.
func TestStopWhileAShellIsOpen(t *testing.T) {
	for _, open := range []bool{true, false} {
		child := startedChild(t)
		if open {
			child.loan.begin()
		}
		child.signal(syscall.SIGSTOP)
		if got := next(t, child); !got.Stopped() || got.StopSignal() != syscall.SIGSTOP {
			t.Fatalf("the child reports %v", got)
		}
		child.suspend() // one signal more, of the parent
		child.follow(syscall.SIGSTOP)
		if open {
			child.loan.end()
		}
		child.signal(syscall.SIGPROF) // the kernel delivers pending signals by their number: after SIGTSTP
		switch got := next(t, child); {
		case open && (!got.Signaled() || got.Signal() != syscall.SIGPROF):
			t.Errorf("with an open shell the child reports %v, not only its end", got)
		case !open && (!got.Stopped() || got.StopSignal() != syscall.SIGTSTP):
			t.Errorf("without a shell the child reports %v, not a stop by SIGTSTP", got)
		}
	}
}

// startedChild is a program that handles no signal, in place of a dashboard.
func startedChild(t *testing.T) *watchedChild {
	t.Helper()
	l, err := newLoan()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "600")
	// A group of its own whose parent is in the same session: the kernel stops no orphaned group by SIGTSTP.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
		_ = l.close()
	})
	return &watchedChild{cmd: cmd, loan: l}
}

// next is the next stop or the end of a child.
func next(t *testing.T, c *watchedChild) syscall.WaitStatus {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(c.cmd.Process.Pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			t.Fatal(err)
		}
		if pid > 0 {
			return status
		}
	}
	t.Fatal("the child neither stopped nor ended")
	return 0
}
