package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// replace renames the file from to the name to, both below root, and replaces an existing file. An existing directory
// stays, and is an error. An existing link is replaced, not followed.
//
// The two files exchange names where possible: ext4 flushes a file to the disk when it is renamed over another. That
// costs ten times as much as the rest.
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
		if errors.Is(err, cannot) { // no such file, or the file system cannot exchange
			return root.Rename(from, to)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	if err := unix.Unlinkat(int(source.Fd()), path.Base(from), 0); err != nil {
		// The target is not a file, or cannot be removed: it gets its name back.
		return errors.Join(&fs.PathError{Op: "replace", Path: to, Err: err}, exchange())
	}
	return nil
}
