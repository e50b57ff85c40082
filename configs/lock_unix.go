//go:build unix

package configs

import (
	"os"
	"syscall"
)

// lockDir keeps other writers out of a directory until unlock. It makes no lock file.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, os.NewSyscallError("flock", err)
	}
	return func() { _ = f.Close() }, nil
}
