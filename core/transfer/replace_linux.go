package transfer

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// replace gives the file at from the name to, in place of the file that may be there. A directory that is there stays, and is an error.
//
// The two change names where that is possible: ext4 writes a file to the disk at once when it is renamed over another, which costs ten times
// as much as all else.
func replace(from, to string) error {
	switch err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE); err {
	case nil:
	case unix.ENOENT, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP:
		// There is none, or the file system cannot.
		return os.Rename(from, to)
	default:
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	err := unix.Unlink(from)
	if err == nil {
		return nil
	}
	// What was there is no file, or may not be removed: it has its name again.
	return errors.Join(&fs.PathError{Op: "replace", Path: to, Err: err}, unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE))
}
