//go:build unix

package watch

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// The parent sends SIGTSTP after a stop only if the dashboard had the terminal. A child with an open shell could handle
// the signal after the shell has ended.
func TestStopWhileAShellIsOpen(t *testing.T) {
	for _, open := range []bool{true, false} {
		child, input := startedChild(t)
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
		child.signal(syscall.SIGPROF) // the kernel delivers handled signals by their number: after SIGTSTP
		_ = input.Close()             // a shell may have been about to read when its handler ran
		switch got := next(t, child); {
		case open && got.ExitStatus() != handledExit:
			t.Errorf("with an open shell the child reports %v, not only its end", got)
		case !open && (!got.Stopped() || got.StopSignal() != syscall.SIGTSTP):
			t.Errorf("without a shell the child reports %v, not a stop by SIGTSTP", got)
		}
	}
}

// handledExit is how startedChild's program ends by SIGPROF.
const handledExit = 3

// startedChild starts a program that handles only SIGPROF, in place of a dashboard. An unhandled signal that ends a
// process does so at once, also before pending ones.
func startedChild(t *testing.T) (child *watchedChild, input io.Closer) {
	t.Helper()
	l, err := newLoan()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", fmt.Sprintf(`trap "exit %d" PROF; echo ready; read line`, handledExit))
	// A new group whose parent is in the same session: the kernel does not stop an orphaned group by SIGTSTP.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err = cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
		_ = l.close()
	})
	if _, err := io.ReadFull(output, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	return &watchedChild{cmd: cmd, loan: l}, input
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
