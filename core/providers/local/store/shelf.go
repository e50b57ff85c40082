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

	"github.com/seed-0724f904/sb/internal/atomicfile"
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

// Volumes returns the shelf of volumes. Unlike other entries, a volume has a directory that sandboxes change, which is
// VolumeData.
func (s *Store) Volumes() *Shelf {
	return &Shelf{s, filepath.Join(s.state, "volumes"), "volume.json"}
}

// VolumeData is the directory with the files of a volume, in the volume's directory.
const VolumeData = "data"

// VolumeDir returns the directory of a volume.
func (s *Store) VolumeDir(name string) string { return filepath.Join(s.Volumes().dir, name) }

// WithVolumes calls do while no other process creates or removes volumes, or checks their use.
func (s *Store) WithVolumes(do func() error) error {
	if err := os.MkdirAll(s.state, 0o700); err != nil {
		return err
	}
	f, err := OpenRegular(filepath.Join(s.state, "volumes.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := flock(f, unix.LOCK_EX); err != nil {
		return err
	}
	return do()
}

// Venvs returns the shelf of virtual environments over this machine's programs.
func (s *Store) Venvs() *Shelf { return &Shelf{s, filepath.Join(s.state, "venvs"), "venv.json"} }

// Draft is an entry that is being made. A process that works on it holds its lock.
type Draft struct {
	// Dir is the draft's directory.
	Dir    string
	shelf  *Shelf
	lock   *os.File
	writer Writer
}

// Draft makes a new draft.
func (s *Shelf) Draft() (*Draft, error) {
	if err := atomicfile.MkdirAll(s.dir, 0o700); err != nil {
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
	if err := d.writer.WriteJSON(filepath.Join(d.Dir, d.shelf.file), v, true); err != nil {
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
	return errors.Join(d.writer.noted("rename", final, nil), d.writer.syncDir(d.shelf.dir))
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
			err = &DamageError{file, "the file is missing"}
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
	gone, err := s.Withdraw(name)
	if err != nil {
		return err
	}
	return RemoveTree(gone)
}

// Withdraw makes an entry a draft that no process works on, and returns the draft's directory. So Names never lists an
// incomplete entry. fs.ErrNotExist: there is no such entry.
func (s *Shelf) Withdraw(name string) (gone string, err error) {
	if _, err := os.Lstat(filepath.Join(s.dir, name)); err != nil {
		return "", err
	}
	// The draft's name is new, because an interrupted removal leaves its draft.
	if gone, err = os.MkdirTemp(s.dir, draftPrefix); err != nil {
		return "", err
	}
	err = unix.Rename(filepath.Join(s.dir, name), gone) // os.Rename does not replace an empty directory
	if err != nil {
		return "", errors.Join(err, os.Remove(gone))
	}
	return gone, nil
}

// RemoveTree removes a directory and its files, also below directories that their owner may not read or change. A
// sandbox can make such directories in a volume.
func RemoveTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	open := []string{"."}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		if err := root.Chmod(at, 0o700); err != nil {
			return err
		}
		entries, err := fs.ReadDir(root.FS(), at)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() {
				open = append(open, filepath.Join(at, e.Name()))
			}
		}
	}
	return os.RemoveAll(dir)
}
