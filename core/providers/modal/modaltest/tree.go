package modaltest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
)

// tree describes the files below a directory: a stamp for each path, which detects changes.
type tree map[string]stamp

// stamp is a file's description. Of directories only the mode counts.
type stamp struct {
	mode     fs.FileMode
	size     int64
	modified int64 // in nanoseconds
	link     string
}

// scan describes the files, directories and links below a directory, and skips others. A sandbox may write to the
// directory at the same time.
func scan(root *os.Root) (tree, error) {
	found := tree{}
	err := fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return ignoreGone(err)
		}
		info, err := root.Lstat(name)
		if err != nil {
			return ignoreGone(err)
		}
		is := stamp{mode: info.Mode()}
		switch {
		case info.Mode().IsRegular():
			is.size, is.modified = info.Size(), info.ModTime().UnixNano()
		case info.Mode()&fs.ModeSymlink != 0:
			if is.link, err = root.Readlink(name); err != nil {
				return ignoreGone(err)
			}
		case !info.IsDir():
			return nil
		}
		found[name] = is
		return nil
	})
	return found, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// carry applies the changes of one directory to another. It copies the files of after that differ from before, and
// removes the files that only before has. A link on either side cannot lead it outside.
func carry(from, to *os.Root, before, after tree) error {
	for _, name := range sortedNames(before) {
		is, there := after[name]
		if there && is.mode.Type() == before[name].mode.Type() {
			continue
		}
		if err := to.RemoveAll(name); err != nil {
			return err
		}
	}
	for _, name := range sortedNames(after) {
		if was, there := before[name]; there && was == after[name] {
			continue
		}
		if err := copyEntry(from, to, name, after[name]); ignoreGone(err) != nil {
			return err
		}
	}
	return nil
}

// sortedNames returns the names, with parents before their entries.
func sortedNames(t tree) []string {
	names := make([]string, 0, len(t))
	for name := range t {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func copyEntry(from, to *os.Root, name string, is stamp) error {
	switch {
	case is.mode.IsDir():
		if err := to.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return errors.Join(own(from, to, name), to.Chmod(name, is.mode))
	case is.mode&fs.ModeSymlink != 0:
		if err := to.RemoveAll(name); err != nil {
			return err
		}
		return errors.Join(to.Symlink(is.link, name), own(from, to, name))
	}
	// The name may now be a file whose opening blocks, such as a pipe.
	source, err := from.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	if info, err := source.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	// A reader of the file sees the old content or the new.
	fresh := path.Join(path.Dir(name), ".modal-"+path.Base(name))
	target, err := to.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err = errors.Join(err, target.Close()); err == nil {
		err = to.Rename(fresh, name)
	}
	if err != nil {
		return errors.Join(err, to.RemoveAll(fresh))
	}
	return errors.Join(
		own(from, to, name), to.Chmod(name, is.mode), to.Chtimes(name, time.Time{}, time.Unix(0, is.modified)),
	)
}

// own sets the owner of a copy to that of its original, if this process may.
func own(from, to *os.Root, name string) error {
	info, err := from.Lstat(name)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := to.Lchown(name, int(stat.Uid), int(stat.Gid)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}
