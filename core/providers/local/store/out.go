//go:build linux

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OutPrefix is the prefix of directories that a supervisor writes to for a client.
const OutPrefix = "out-"

// Out is a directory of a sandbox that its supervisor writes to for a client. The content may be hostile, so clients
// take only regular files.
type Out struct {
	// Name is the directory's name in the sandbox's directory.
	Name string
	dir  *os.File
}

// Out makes an empty directory for a supervisor to write to.
func (s *Store) Out(id string) (*Out, error) {
	path, err := os.MkdirTemp(s.Dir(id), OutPrefix)
	if err != nil {
		return nil, err
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &Out{Name: filepath.Base(path), dir: dir}, nil
}

// Take makes the directory to, on the same file system, and moves all files there. It returns an error for anything
// except regular files.
func (o *Out) Take(to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	names, err := o.dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		moved := filepath.Join(to, name)
		if err := unix.Renameat(int(o.dir.Fd()), name, unix.AT_FDCWD, moved); err != nil {
			return &os.PathError{Op: "rename", Path: filepath.Join(o.dir.Name(), name), Err: err}
		}
		// At its new place the supervisor cannot replace the file.
		info, err := os.Lstat(moved)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.Join(fmt.Errorf("%s: %w", filepath.Join(o.dir.Name(), name), errIrregular), os.RemoveAll(moved))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Close removes the directory.
func (o *Out) Close() error { return errors.Join(os.RemoveAll(o.dir.Name()), o.dir.Close()) }

// RemoveOuts removes the directories that killed clients left. The caller holds the sandbox's lock.
func (s *Store) RemoveOuts(id string) error {
	left, err := filepath.Glob(filepath.Join(s.Dir(id), OutPrefix+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}
