//go:build linux

package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	keptDir     = "checkpoints"
	keptFile    = "checkpoint.json"
	draftPrefix = ".new-"
)

// Draft is a checkpoint that is being made. Its lock says that somebody is at it.
type Draft struct {
	// Dir is the draft's directory, mode 0700.
	Dir   string
	store *Store
	lock  *os.File
}

// DraftKept begins a checkpoint.
func (s *Store) DraftKept() (*Draft, error) {
	parent := filepath.Join(s.state, keptDir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, draftPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = flock(lock, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Draft{dir, s, lock}, nil
}

// Publish gives the draft its name, with v beside it; fs.ErrExist when the name is taken.
func (d *Draft) Publish(name string, v any) error {
	if err := WriteJSON(filepath.Join(d.Dir, keptFile), v, true); err != nil {
		return err
	}
	final := d.store.keptPath(name)
	err := unix.Renameat2(unix.AT_FDCWD, d.Dir, unix.AT_FDCWD, final, unix.RENAME_NOREPLACE)
	if err != nil {
		return &fs.PathError{Op: "rename", Path: final, Err: err}
	}
	return SyncDir(filepath.Dir(final))
}

// Close removes what was not published.
func (d *Draft) Close() {
	_ = os.RemoveAll(d.Dir)
	_ = d.lock.Close()
}

func (s *Store) keptPath(name string) string { return filepath.Join(s.state, keptDir, name) }

// ReadKept reads what Publish wrote beside a checkpoint into v, unless that is nil, and returns the checkpoint's directory.
func (s *Store) ReadKept(name string, v any) (dir string, err error) {
	dir = s.keptPath(name)
	if v == nil {
		v = &json.RawMessage{}
	}
	return dir, ReadJSON(filepath.Join(dir, keptFile), v)
}

// KeptNames lists the checkpoints.
func (s *Store) KeptNames() ([]string, error) {
	entries, err := s.keptEntries()
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), draftPrefix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// AbandonedKept lists the directories of drafts that nobody works at.
func (s *Store) AbandonedKept() ([]string, error) {
	entries, err := s.keptEntries()
	var dirs []string
	for _, e := range entries {
		dir := s.keptPath(e.Name())
		if strings.HasPrefix(e.Name(), draftPrefix) && !held(filepath.Join(dir, lockFile)) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, err
}

func (s *Store) keptEntries() ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(filepath.Join(s.state, keptDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// RemoveKept removes a checkpoint; fs.ErrNotExist when there is none.
func (s *Store) RemoveKept(name string) error {
	dir := s.keptPath(name)
	// Under a draft's name first: half of a checkpoint is never listed.
	gone := filepath.Join(filepath.Dir(dir), draftPrefix+name)
	if err := os.Rename(dir, gone); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}
