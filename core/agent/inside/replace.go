//go:build linux

package inside

import (
	"errors"

	"golang.org/x/sys/unix"
)

// replacer replaces files by others.
type replacer struct {
	// noExchange means that the file system cannot exchange two files.
	noExchange bool
}

// replace renames temp to the name of an existing file in the same directory. If possible, it exchanges the two. ext4
// writes a file to the disk at once when it is renamed over another, which costs ten times as much.
func (r *replacer) replace(dir int, temp, name string) error {
	if r.noExchange {
		return unix.Renameat(dir, temp, dir, name)
	}
	var old unix.Stat_t
	if err := unix.Fstatat(dir, name, &old, unix.AT_SYMLINK_NOFOLLOW); err == nil && old.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EISDIR
	}
	switch err := unix.Renameat2(dir, temp, dir, name, unix.RENAME_EXCHANGE); err {
	case nil:
	case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP:
		r.noExchange = true
		return r.replace(dir, temp, name)
	case unix.ENOENT: // it was removed since
		return unix.Renameat(dir, temp, dir, name)
	default:
		return err
	}
	err := unix.Unlinkat(dir, temp, 0)
	if err == unix.EISDIR {
		// A directory has taken its place since.
		return errors.Join(err, unix.Renameat2(dir, temp, dir, name, unix.RENAME_EXCHANGE))
	}
	return err
}
