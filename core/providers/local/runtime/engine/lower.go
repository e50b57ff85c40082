//go:build linux

package engine

import (
	"io/fs"
	"os"
	"path/filepath"
)

// lower is what lies below the writable layer. Names are absolute paths in the sandbox; no link is followed.
type lower interface {
	Lstat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
}

// hostLower is the view of this machine, at a directory.
type hostLower string

func (l hostLower) Lstat(name string) (fs.FileInfo, error) {
	return os.Lstat(filepath.Join(string(l), name))
}

func (l hostLower) ReadDir(name string) ([]fs.DirEntry, error) {
	return os.ReadDir(filepath.Join(string(l), name))
}
