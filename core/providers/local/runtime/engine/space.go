//go:build linux

package engine

import "golang.org/x/sys/unix"

// noSpace wraps an error of gVisor on a full disk as unix.ENOSPC, because gVisor's error is only a text.
type noSpace struct{ error }

func (noSpace) Unwrap() error { return unix.ENOSPC }

// written wraps err as noSpace if the disk of dir is full.
func written(dir string, err error) error {
	const nothing = 64 << 10 // bytes: no file of gVisor's fits
	var disk unix.Statfs_t
	//nolint:gosec // a block's size
	if err == nil || unix.Statfs(dir, &disk) != nil || disk.Blocks == 0 || disk.Bavail*uint64(disk.Bsize) > nothing {
		return err
	}
	return noSpace{err}
}
