//go:build unix

package core

import (
	"os"

	"golang.org/x/sys/unix"
)

// duplicate opens a second descriptor of a file, so that the caller may close its own.
func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	copied := -1
	if controlErr := raw.Control(func(fd uintptr) {
		copied, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	}); controlErr != nil {
		return nil, controlErr
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(copied), f.Name()), nil
}
