//go:build linux

package engine

import (
	"io/fs"
	"os"
	"path/filepath"
)

// lower has the files below the writable layer. Names are absolute paths in the sandbox. Links are not followed.
type lower interface {
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
}

// hostLower is the directory of the view of this machine.
type hostLower string

func (l hostLower) Lstat(name string) (fs.FileInfo, error) {
	return os.Lstat(filepath.Join(string(l), name))
}

func (l hostLower) ReadDir(name string) ([]fs.DirEntry, error) {
	return os.ReadDir(filepath.Join(string(l), name))
}
