package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// replacer renames files over others below root. It keeps the two directories of the last rename open, because the next
// file is usually in the same ones. Neither may be moved before close.
type replacer struct {
	root           *os.Root
	source, target opened
}

// opened is a directory that stays open.
type opened struct {
	name string
	dir  *os.File
}

// open makes name the open directory.
func (o *opened) open(root *os.Root, name string) (int, error) {
	if o.dir == nil || o.name != name {
		dir, err := root.Open(name)
		if err != nil {
			return -1, err
		}
		_ = o.close() // nothing was written to it
		o.name, o.dir = name, dir
	}
	return int(o.dir.Fd()), nil
}

func (o *opened) close() error {
	if o.dir == nil {
		return nil
	}
	return o.dir.Close()
}

func (r *replacer) close() error { return errors.Join(r.source.close(), r.target.close()) }

// replace renames the file from to the name to, both below root, and replaces an existing file. An existing directory
// stays, and is an error. An existing link is replaced, not followed.
//
// The two files exchange names where possible: ext4 flushes a file to the disk when it is renamed over another. That
// costs ten times as much as the rest.
func (r *replacer) replace(from, to string) error {
	source, err := r.source.open(r.root, path.Dir(from))
	if err != nil {
		return err
	}
	target, err := r.target.open(r.root, path.Dir(to))
	if err != nil {
		return err
	}
	exchange := func() error {
		return unix.Renameat2(source, path.Base(from), target, path.Base(to), unix.RENAME_EXCHANGE)
	}
	switch err = exchange(); {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS),
		errors.Is(err, unix.EOPNOTSUPP): // no such file, or the file system cannot exchange
		if err = unix.Renameat(source, path.Base(from), target, path.Base(to)); err == nil {
			return nil
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	if err := unix.Unlinkat(source, path.Base(from), 0); err != nil {
		// The target is not a file, or cannot be removed: it gets its name back.
		return errors.Join(&fs.PathError{Op: "replace", Path: to, Err: err}, exchange())
	}
	return nil
}
