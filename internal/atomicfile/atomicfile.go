package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Write replaces the file at path. It does not follow a symbolic link at path. It does not wait for the disk: after a
// crash of the machine the file may be empty. Use it for content that can be made again.
func Write(path string, content []byte, mode fs.FileMode) error {
	return write(path, content, mode, false, os.Rename)
}

// WriteDurable is Write for content that cannot be made again. When it returns, the new content is on the disk.
func WriteDurable(path string, content []byte, mode fs.FileMode) error {
	return write(path, content, mode, true, os.Rename)
}

// CreateDurable is WriteDurable for a new file. The error is fs.ErrExist if path exists. Only one of several concurrent
// writers succeeds.
func CreateDurable(path string, content []byte, mode fs.FileMode) error {
	return write(path, content, mode, true, func(from, to string) error {
		return errors.Join(os.Link(from, to), os.Remove(from))
	})
}

// write writes a temporary file beside path, and moves it to path with place.
func write(path string, content []byte, mode fs.FileMode, durable bool, place func(from, to string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && mode != 0o600 {
		err = f.Chmod(mode)
	}
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = place(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // only the first error matters
		return err
	}
	if durable {
		return syncDir(dir)
	}
	return nil
}

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // directories cannot be opened there
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
