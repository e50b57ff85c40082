package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path"
)

// nearest opens files by the last element of their name, because each further element costs two system calls. It keeps
// the directory of the last file open: the next file is usually in the same one. The caller closes it.
type nearest struct {
	root *os.Root
	name string
	dir  *os.Root // nil: none is open
}

// in returns the directory of a file below root, and the last element of the file's name. The directory is open until
// the next call. Its methods' errors have only that element, which named corrects.
func (n *nearest) in(name string) (dir *os.Root, base string, err error) {
	parent, base := path.Dir(name), path.Base(name)
	if parent == "." {
		return n.root, base, nil
	}
	if n.dir == nil || n.name != parent {
		dir, err := n.root.OpenRoot(parent)
		if err != nil {
			return nil, "", named(err, name)
		}
		if err := n.close(); err != nil {
			return nil, "", errors.Join(err, dir.Close())
		}
		n.name, n.dir = parent, dir
	}
	return n.dir, base, nil
}

func (n *nearest) close() error {
	if n.dir == nil {
		return nil
	}
	err := n.dir.Close()
	n.dir = nil
	return err
}

// named returns an error of a file with the file's whole name.
func named(err error, name string) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: e.Op, Path: name, Err: e.Err}
	}
	return err
}
