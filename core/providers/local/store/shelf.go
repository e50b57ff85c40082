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

// draftPrefix is the prefix of entries that are being made or removed.
const draftPrefix = ".new-"

// Shelf is a directory of named entries: checkpoints, or snapshots. An entry is made once and then only read. It is a
// directory of mode 0700 with a file that describes it.
type Shelf struct {
	store     *Store
	dir, file string
}

// Checkpoints returns the shelf of checkpoints.
func (s *Store) Checkpoints() *Shelf {
	return &Shelf{s, filepath.Join(s.state, "checkpoints"), "checkpoint.json"}
}

// Snapshots returns the shelf of snapshots.
func (s *Store) Snapshots() *Shelf {
	return &Shelf{s, filepath.Join(s.state, "snapshots"), "snapshot.json"}
}

// Draft is an entry that is being made. A process that works on it holds its lock.
type Draft struct {
	// Dir is the draft's directory.
	Dir   string
	shelf *Shelf
	lock  *os.File
}

// Draft makes a new draft.
func (s *Shelf) Draft() (*Draft, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	draft := &Draft{shelf: s}
	err := s.store.withNames(func(string) (err error) {
		if draft.Dir, err = os.MkdirTemp(s.dir, draftPrefix); err != nil {
			return err
		}
		draft.lock, err = os.OpenFile(filepath.Join(draft.Dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
		if err == nil {
			err = flock(draft.lock, unix.LOCK_EX|unix.LOCK_NB)
		}
		if err != nil {
			err = errors.Join(err, os.RemoveAll(draft.Dir))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return draft, nil
}

// Publish gives the draft its name, and writes v as its description. With replace it replaces an entry of that name.
// Otherwise such an entry is fs.ErrExist.
func (d *Draft) Publish(name string, v any, replace bool) error {
	if err := WriteJSON(filepath.Join(d.Dir, d.shelf.file), v, true); err != nil {
		return err
	}
	final := filepath.Join(d.shelf.dir, name)
	err := unix.Renameat2(unix.AT_FDCWD, d.Dir, unix.AT_FDCWD, final, unix.RENAME_NOREPLACE)
	if replace && errors.Is(err, unix.EEXIST) {
		// The old entry then has the draft's name, and Close removes it.
		err = unix.Renameat2(unix.AT_FDCWD, d.Dir, unix.AT_FDCWD, final, unix.RENAME_EXCHANGE)
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: final, Err: err}
	}
	return SyncDir(d.shelf.dir)
}

// Close removes a draft that was not published.
func (d *Draft) Close() {
	_ = os.RemoveAll(d.Dir)
	_ = d.lock.Close()
}

// Read reads the description of an entry into v, unless that is nil, and returns the entry's directory. fs.ErrNotExist:
// there is no such entry. DamageError: its description is damaged.
func (s *Shelf) Read(name string, v any) (dir string, err error) {
	dir = filepath.Join(s.dir, name)
	if v == nil {
		v = &json.RawMessage{}
	}
	file := filepath.Join(dir, s.file)
	if _, err = ReadJSON(file, v); errors.Is(err, fs.ErrNotExist) {
		if _, statErr := os.Lstat(dir); statErr == nil {
			err = &DamageError{file, "the file is lost"}
		}
	}
	return dir, err
}

// Names lists the entries, without drafts.
func (s *Shelf) Names() ([]string, error) {
	entries, err := s.entries()
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), draftPrefix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Abandoned lists the directories of drafts that no process works on.
func (s *Shelf) Abandoned() ([]string, error) {
	entries, err := s.entries()
	var dirs []string
	for _, e := range entries {
		dir := filepath.Join(s.dir, e.Name())
		if strings.HasPrefix(e.Name(), draftPrefix) && s.store.abandoned(filepath.Join(dir, lockFile), dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, err
}

func (s *Shelf) entries() ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// Remove removes an entry. fs.ErrNotExist: there is no such entry.
func (s *Shelf) Remove(name string) error {
	if _, err := os.Lstat(filepath.Join(s.dir, name)); err != nil {
		return err
	}
	// The entry becomes a draft first, so that Names never lists an incomplete entry. The draft's name is new, because an
	// interrupted removal leaves its draft.
	gone, err := os.MkdirTemp(s.dir, draftPrefix)
	if err != nil {
		return err
	}
	err = unix.Rename(filepath.Join(s.dir, name), gone) // os.Rename does not replace an empty directory
	return errors.Join(err, os.RemoveAll(gone))
}
