//go:build unix

package configs

import (
	"errors"
	"os"
	"syscall"
)

// private says why a directory is not this user's alone, or nil.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return errors.New("it is not a directory")
	case !ok || int(stat.Uid) != os.Getuid():
		return errors.New("it belongs to another user")
	case info.Mode().Perm()&0o077 != 0:
		return errors.New("others may use it")
	}
	return nil
}
