//go:build linux

package engine

import "golang.org/x/sys/unix"

// noSpace is an error of gVisor's, which has only a text, on a disk that is full. It is unix.ENOSPC.
type noSpace struct{ error }

func (noSpace) Unwrap() error { return unix.ENOSPC }

// written says of a failure to write in dir if it is the disk's.
func written(dir string, err error) error {
	const nothing = 64 << 10 // bytes: no file of gVisor's fits
	var disk unix.Statfs_t
	//nolint:gosec // a block's size
	if err == nil || unix.Statfs(dir, &disk) != nil || disk.Blocks == 0 || disk.Bavail*uint64(disk.Bsize) > nothing {
		return err
	}
	return noSpace{err}
}
