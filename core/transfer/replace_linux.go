package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// replace gives the file at from the name to, both below root, in place of the file that may be there. A directory that
// is there stays, and is an error. A link that is there is replaced, not followed.
//
// The two change names where that is possible: ext4 writes a file to the disk at once when it is renamed over another,
// which costs ten times as much as all else.
func replace(root *os.Root, from, to string) (err error) {
	source, err := root.Open(path.Dir(from))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := root.Open(path.Dir(to))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	exchange := func() error {
		return unix.Renameat2(int(source.Fd()), path.Base(from), int(target.Fd()), path.Base(to), unix.RENAME_EXCHANGE)
	}
	err = exchange()
	for _, cannot := range []error{unix.ENOENT, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP} {
		if errors.Is(err, cannot) { // there is none, or the file system cannot
			return root.Rename(from, to)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	if err := unix.Unlinkat(int(source.Fd()), path.Base(from), 0); err != nil {
		// The target is not a file, or may not be removed: it has its name again.
		return errors.Join(&fs.PathError{Op: "replace", Path: to, Err: err}, exchange())
	}
	return nil
}
