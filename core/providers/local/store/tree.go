//go:build linux

package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// SumsFile lists the files of a sealed directory with their sizes and checksums.
const SumsFile = "sums.json"

// sum is one file of a sealed directory.
type sum struct {
	Name   string `json:"name"` // relative to the directory
	Size   int64  `json:"size"`
	CRC32C string `json:"crc32c"`
}

// Seal makes the files of a directory durable and lists them in SumsFile, so that Check finds each later change. The
// directory must not change after that. It must not be a link, or contain anything except files and directories.
func Seal(dir string) error { return Writer{}.seal(dir) }

func (w Writer) seal(dir string) error {
	sums := []sum{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return w.syncDir(path)
		case path == dir:
			return fmt.Errorf("%s cannot be sealed: it is not a directory", path)
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s cannot be sealed: it is not a regular file", path)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		s, err := measure(path, true)
		s.Name = name
		sums = append(sums, s)
		return w.noted("sync", path, err)
	})
	if err != nil {
		return err
	}
	w.stepped()
	return w.WriteJSON(filepath.Join(dir, SumsFile), sums, true)
}

// Check verifies the files of a sealed directory. A DamageError names the first changed file. Neither the directory nor
// a file may be a link.
func Check(dir string) error {
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return &DamageError{dir, "it is not a directory"}
	}
	list := filepath.Join(dir, SumsFile)
	var sums []sum
	if _, err := ReadJSON(list, &sums); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return &DamageError{list, "the file is missing"}
		}
		return err
	}
	for _, want := range sums {
		if !filepath.IsLocal(want.Name) {
			return &DamageError{list, fmt.Sprintf("it has the invalid name %q", want.Name)}
		}
		path := filepath.Join(dir, want.Name)
		have, err := measure(path, false)
		switch {
		case errors.Is(err, errIrregular):
			return &DamageError{path, errIrregular.Error()}
		case errors.Is(err, fs.ErrNotExist):
			return &DamageError{path, "the file is missing"}
		case err != nil:
			return err
		case have.Size != want.Size:
			return &DamageError{path, fmt.Sprintf("it has %d bytes instead of %d", have.Size, want.Size)}
		case have.CRC32C != want.CRC32C:
			return &DamageError{path, "its checksum differs"}
		}
	}
	return nil
}

// measure reads a file and returns its size and checksum. durable waits until the file is on the disk. measure does not
// follow links or wait for a FIFO.
func measure(path string, durable bool) (s sum, err error) {
	f, err := OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	if s.Size, err = io.CopyBuffer(struct{ io.Writer }{hash}, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
		return s, err
	}
	s.CRC32C = fmt.Sprintf("%08x", hash.Sum32())
	if durable {
		err = f.Sync()
	}
	return s, err
}
