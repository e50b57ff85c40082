package transfer

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-0724f904/sb/core"
)

// pull copies from a sandbox to this machine.
func (c *copier) pull() error {
	name, content := source(c.From.Path)
	info, err := c.Stat(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	if content {
		if info, err = c.followed(info); err != nil {
			return err
		}
	}
	if !info.Mode.IsDir() {
		return c.pullFile(info)
	}
	target, exists, err := hostTarget(c.To.Path, path.Base(info.Path), true, content)
	if err != nil {
		return err
	}
	return c.pullTree(info.Path, target, exists)
}

// pullFile copies one file beside its target, then puts it in place. A device or a pipe is written to, and stays what it is.
func (c *copier) pullFile(info core.FileInfo) (err error) {
	target, _, err := hostTarget(c.To.Path, path.Base(info.Path), false, false)
	if err != nil {
		return err
	}
	there, err := os.Stat(target)
	if err == nil && !there.Mode().IsRegular() {
		return c.pullInto(target, info)
	}
	if err == nil { // what a link leads to is replaced, not the link: /dev/stdout is one
		if target, err = filepath.EvalSymlinks(target); err != nil {
			return err
		}
	}
	content, err := c.ReadFile(c.ctx, c.From.Sandbox, info.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	f, err := os.CreateTemp(filepath.Dir(target), ".sb-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	c.total, c.result.Files = info.Size, 1
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, counted{c, content}, make([]byte, copyBuffer))
	mode, link := info.Mode.Perm(), info.Mode&fs.ModeSymlink != 0
	if link {
		mode = 0o644
	}
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	if !link && !info.ModTime.IsZero() {
		if err = os.Chtimes(f.Name(), info.ModTime, info.ModTime); err != nil {
			return err
		}
	}
	return replace(f.Name(), target)
}

// pullInto writes a file's content to what is no regular file here.
func (c *copier) pullInto(target string, info core.FileInfo) (err error) {
	content, err := c.ReadFile(c.ctx, c.From.Sandbox, info.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	f, err := os.OpenFile(target, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	c.total, c.result.Files = info.Size, 1
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, counted{c, content}, make([]byte, copyBuffer))
	return errors.Join(err, f.Close())
}

// pullTree unpacks a directory near its target, and moves it there when it is whole.
func (c *copier) pullTree(name, target string, exists bool) (err error) {
	archive, err := c.Export(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	near := filepath.Dir(target)
	if exists {
		near = target // what is above it may be another disk, or another user's
	}
	staging, err := os.MkdirTemp(near, ".sb-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeTree(staging)) }()
	root, err := os.OpenRoot(staging)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := root.Mkdir(treeName, 0o700); err != nil {
		return err
	}
	tree, err := root.OpenRoot(treeName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	directories, err := c.unpack(bufio.NewReaderSize(archive, copyBuffer), name, tree)
	if err != nil {
		return err
	}
	staged := filepath.Join(staging, treeName)
	if !exists {
		if err := os.Rename(staged, target); err != nil {
			return err
		}
		return finishDirectories(tree, directories)
	}
	if err := checkMerge(staged, target); err != nil {
		return err
	}
	old, err := merge(staged, target)
	if err != nil {
		return err
	}
	directories = slices.DeleteFunc(directories, func(d *tar.Header) bool { return old[filepath.FromSlash(d.Name)] })
	merged, err := os.OpenRoot(target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, merged.Close()) }()
	return finishDirectories(merged, directories)
}

// treeName is the directory in the staging directory that becomes the target.
const treeName = "tree"

// removeTree removes a tree whose directories may be closed to their owner.
func removeTree(dir string) error {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(name, 0o700) //nolint:gosec // it is about to be removed
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// unpack reads an archive that a sandbox wrote, and so may be hostile, into an empty
// tree. It returns the directories' headers: their modes and times are set last. from is the tree's path in the sandbox.
func (c *copier) unpack(archive io.Reader, from string, tree *os.Root) ([]*tar.Header, error) {
	ignored := newIgnore(c.Exclude)
	linked, heirs := links{}, heirs{}
	var directories []*tar.Header
	r := tar.NewReader(archive)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			// The archive's end is not the stream's: that tells whether the sandbox was through.
			_, err := io.Copy(io.Discard, archive)
			return directories, err
		}
		if err != nil {
			return nil, err
		}
		name, err := localName(header.Name)
		if err != nil {
			return nil, err
		}
		if excluded(ignored, name, header.Typeflag == tar.TypeDir) {
			continue
		}
		header.Name = name
		if err := linked.check(name); err != nil {
			return nil, err
		}
		if sparse(header) {
			return nil, core.Errorf(core.KindUsage, "copy", name, "the sandbox sent a sparse file")
		}
		if header.Typeflag == tar.TypeDir {
			directories = append(directories, header)
		}
		content, err := c.contentOf(r, header, from, ignored, heirs)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(c.unpackEntry(content, header, tree, linked), content.Close()); err != nil {
			return nil, err
		}
	}
}

// sparse says whether an entry stands for more bytes than the archive has: a few of those could fill
// the disk with zeros. The keys are those of GNU tar's manual, "Storing Sparse Files".
func sparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// excluded says whether a path or a directory above it is left out.
func excluded(ignored *ignore, name string, directory bool) bool {
	if ignored.match(name, directory) {
		return true
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if ignored.match(dir, true) {
			return true
		}
	}
	return false
}

func (c *copier) unpackEntry(r io.Reader, header *tar.Header, tree *os.Root, linked links) error {
	mode := header.FileInfo().Mode().Perm()
	switch header.Typeflag {
	case tar.TypeDir:
		c.result.Files++
		return tree.MkdirAll(header.Name, 0o700)
	case tar.TypeSymlink:
		if err := checkLink(header.Name, header.Linkname); err != nil {
			return err
		}
		c.result.Files++
		linked[header.Name] = true
		return tree.Symlink(header.Linkname, header.Name)
	case tar.TypeLink:
		old, err := localName(header.Linkname)
		if err != nil {
			return err
		}
		if err := linked.checkHard(header.Name, old); err != nil {
			return err
		}
		c.result.Files++
		return tree.Link(old, header.Name)
	case tar.TypeReg:
		c.result.Files++
		return c.unpackFile(r, header, mode, tree)
	}
	return nil // what else there is stays in the sandbox
}

func (c *copier) unpackFile(r io.Reader, header *tar.Header, mode fs.FileMode, tree *os.Root) error {
	f, err := tree.OpenFile(header.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{f}, counted{c, r})
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return tree.Chtimes(header.Name, header.ModTime, header.ModTime)
}

// finishDirectories sets modes and times from the deepest up. It comes after the tree is in its
// place, for a directory without write permission can neither be filled nor moved.
func finishDirectories(tree *os.Root, directories []*tar.Header) error {
	for _, d := range slices.Backward(directories) {
		if err := errors.Join(tree.Chtimes(d.Name, d.ModTime, d.ModTime), tree.Chmod(d.Name, d.FileInfo().Mode().Perm())); err != nil {
			return err
		}
	}
	return nil
}

// checkMerge refuses a tree that does not fit over the one that exists, before anything is moved.
func checkMerge(from, to string) error {
	return walkBoth(from, to, func(_, target string, d fs.DirEntry) error {
		info, err := os.Lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist) && d.IsDir():
			return fs.SkipDir
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.IsDir() != d.IsDir():
			return core.Errorf(core.KindConflict, "copy", target, "a file and a directory cannot replace one another")
		}
		return nil
	})
}

// merge moves a complete tree over an existing one, file by file, and returns which of
// its directories were there before.
func merge(from, to string) (old map[string]bool, err error) {
	old = map[string]bool{}
	err = walkBoth(from, to, func(name, target string, d fs.DirEntry) error {
		if d.IsDir() {
			if info, err := os.Lstat(target); err == nil && info.IsDir() {
				relative, err := filepath.Rel(to, target)
				old[relative] = true
				return err
			}
		}
		if !d.IsDir() {
			return replace(name, target)
		}
		if err := os.Rename(name, target); err != nil {
			return err
		}
		return fs.SkipDir
	})
	return old, err
}

// walkBoth visits each file of a tree with its place in another one.
func walkBoth(from, to string, visit func(name, target string, d fs.DirEntry) error) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		return visit(name, filepath.Join(to, relative), d)
	})
}
