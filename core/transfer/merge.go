package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// checkMerge refuses a tree, below dir, that conflicts with the content of dir. No file is moved yet.
func checkMerge(dir *os.Root, tree string) error {
	return walkBoth(dir, tree, func(_, target string, d fs.DirEntry) error {
		info, err := dir.Lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist) && d.IsDir():
			return fs.SkipDir
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.IsDir() != d.IsDir():
			return notEachOther(path.Join(dir.Name(), target))
		}
		return nil
	})
}

// notEachOther returns the error for a directory that would replace another kind of file, or the reverse.
func notEachOther(target string) error {
	return core.Errorf(
		core.KindConflict, "copy", target, "a directory and another type, such as a link, cannot replace each other",
	)
}

// merge moves a complete tree, below dir, over the content of dir, file by file. It returns the directories that
// existed before.
func merge(dir *os.Root, tree string) (old map[string]bool, err error) {
	old = map[string]bool{}
	over := replacer{root: dir}
	defer func() { err = errors.Join(err, over.close()) }()
	err = walkBoth(dir, tree, func(name, target string, d fs.DirEntry) error {
		if !d.IsDir() {
			return over.replace(name, target)
		}
		if info, err := dir.Lstat(target); err == nil && info.IsDir() {
			old[target] = true
			return nil
		}
		if err := dir.Rename(name, target); err != nil {
			return err
		}
		return fs.SkipDir
	})
	return old, err
}

// replace renames one file over another, as replacer does.
func replace(root *os.Root, from, to string) (err error) {
	r := replacer{root: root}
	defer func() { err = errors.Join(err, r.close()) }()
	return r.replace(from, to)
}

// walkBoth visits each file of a tree below dir, with its target in dir.
func walkBoth(dir *os.Root, tree string, visit func(name, target string, d fs.DirEntry) error) error {
	return fs.WalkDir(dir.FS(), tree, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := strings.TrimPrefix(strings.TrimPrefix(name, tree), "/")
		if target == "" {
			target = "."
		}
		return visit(name, target, d)
	})
}
