package atomicfile

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Write replaces the file at path. It does not follow a symbolic link at path. It does not wait for the disk: after a
// crash of the machine the file may be empty. Use it for content that can be made again.
func Write(path string, content []byte, mode fs.FileMode) error {
	return disk{}.write(path, content, mode, false, os.Rename)
}

// WriteDurable is Write for content that cannot be made again. When it returns, the new content is on the disk.
func WriteDurable(path string, content []byte, mode fs.FileMode) error {
	return disk{}.write(path, content, mode, true, os.Rename)
}

// CreateDurable is WriteDurable for a new file. The error is fs.ErrExist if path exists. Only one of several concurrent
// writers succeeds.
func CreateDurable(path string, content []byte, mode fs.FileMode) error {
	return disk{}.write(path, content, mode, true, func(from, to string) error {
		return errors.Join(os.Link(from, to), os.Remove(from))
	})
}

// MkdirAll is os.MkdirAll. When it returns, the directories that it made are on the disk.
func MkdirAll(dir string, mode fs.FileMode) error { return disk{}.mkdirAll(dir, mode) }

// disk changes files. note is called after each change, for a test of their order; nil does nothing.
type disk struct{ note func(change, path string) }

func (d disk) noted(change, path string, err error) error {
	if d.note != nil && err == nil {
		d.note(change, path)
	}
	return err
}

// write writes a temporary file beside path, and moves it to path with place.
func (d disk) write(
	path string, content []byte, mode fs.FileMode, durable bool, place func(from, to string) error,
) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && mode != 0o600 {
		err = f.Chmod(mode)
	}
	err = d.noted("write", f.Name(), err)
	if err == nil && durable {
		err = d.noted("sync", f.Name(), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.noted("place", path, place(f.Name(), path))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // only the first error matters
		return err
	}
	if durable {
		return d.syncDir(dir)
	}
	return nil
}

func (d disk) mkdirAll(dir string, mode fs.FileMode) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := d.mkdirAll(parent, mode); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// If another process made it at the same time, that one may not have synced it yet.
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: cmp.Or(err, fs.ErrExist)}
	}
	return errors.Join(d.noted("mkdir", dir, nil), d.syncDir(parent))
}

// syncDir makes the entries of a directory durable.
func (d disk) syncDir(dir string) error {
	if runtime.GOOS == "windows" { // directories cannot be opened there
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return d.noted("sync", dir, errors.Join(f.Sync(), f.Close()))
}
