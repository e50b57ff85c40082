//go:build unix

package watch

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// loan records whether a shell of a sandbox has the terminal. It is a pipe that both processes hold; a byte in it means
// yes. So the parent can read the state of a stopped child, too.
type loan struct{ take, put *os.File }

func newLoan() (loan, error) {
	take, put, err := os.Pipe()
	return loan{take, put}, err
}

// inheritedLoan is the child's end of the loan that its parent made.
func inheritedLoan() loan {
	syscall.CloseOnExec(takeFile)
	syscall.CloseOnExec(putFile)
	return loan{os.NewFile(takeFile, "loan"), os.NewFile(putFile, "loan")}
}

// begin and end are called in turns, by the child.
func (l loan) begin() { _, _ = l.put.Write([]byte{1}) } // this process has the other end: it cannot fail

func (l loan) end() { _, _ = l.take.Read(make([]byte, 1)) } // begin wrote the byte

func (l loan) isOut() bool {
	for {
		poll := []unix.PollFd{{Fd: int32(l.take.Fd()), Events: unix.POLLIN}} //nolint:gosec // a descriptor
		n, err := unix.Poll(poll, 0)
		if !errors.Is(err, unix.EINTR) {
			return n == 1 && poll[0].Revents&unix.POLLIN != 0
		}
	}
}

func (l loan) close() error { return errors.Join(l.take.Close(), l.put.Close()) }
