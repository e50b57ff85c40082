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

	"github.com/seed-0724f904/sb/core"
)

// pull copies from a sandbox to this machine.
func (c *copier) pull() error {
	name, content := source(c.From.Path)
	info, err := c.Stat(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	if info.Mode&fs.ModeSymlink != 0 && content {
		info.Mode = fs.ModeDir
	}
	if !info.Mode.IsDir() {
		return c.pullFile(info)
	}
	target, exists, err := hostTarget(c.To.Path, path.Base(info.Path), true, content)
	if err != nil {
		return err
	}
	return c.pullTree(name, target, exists)
}

// pullFile copies one file beside its target, then puts it in place.
func (c *copier) pullFile(info core.FileInfo) (err error) {
	target, _, err := hostTarget(c.To.Path, path.Base(info.Path), false, false)
	if err != nil {
		return err
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
	mode := info.Mode.Perm()
	if info.Mode&fs.ModeSymlink != 0 {
		mode = 0o644
	}
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), target)
}

// pullTree unpacks a directory beside its target, and moves it there when it is whole.
func (c *copier) pullTree(name, target string, exists bool) (err error) {
	archive, err := c.Export(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	staging, err := os.MkdirTemp(filepath.Dir(target), ".sb-*")
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
	directories, err := c.unpack(bufio.NewReaderSize(archive, copyBuffer), tree)
	if err != nil {
		return err
	}
	if err := finishDirectories(tree, directories); err != nil {
		return err
	}
	if !exists {
		return os.Rename(filepath.Join(staging, treeName), target)
	}
	return merge(filepath.Join(staging, treeName), target)
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
// tree. It returns the directories' headers: their modes and times are set last.
func (c *copier) unpack(archive io.Reader, tree *os.Root) ([]*tar.Header, error) {
	ignored := newIgnore(c.Exclude)
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
		if header.Typeflag == tar.TypeDir {
			directories = append(directories, header)
		}
		if err := c.unpackEntry(r, header, tree); err != nil {
			return nil, err
		}
	}
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

func (c *copier) unpackEntry(r io.Reader, header *tar.Header, tree *os.Root) error {
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
		return tree.Symlink(header.Linkname, header.Name)
	case tar.TypeLink:
		old, err := localName(header.Linkname)
		if err != nil {
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

// finishDirectories sets modes and times from the deepest up.
func finishDirectories(tree *os.Root, directories []*tar.Header) error {
	for _, d := range slices.Backward(directories) {
		if err := errors.Join(tree.Chtimes(d.Name, d.ModTime, d.ModTime), tree.Chmod(d.Name, d.FileInfo().Mode().Perm())); err != nil {
			return err
		}
	}
	return nil
}

// merge moves a complete tree over an existing one, file by file.
func merge(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if !d.IsDir() {
			if info, err := os.Lstat(target); err == nil && info.IsDir() {
				return core.Errorf(core.KindConflict, "copy", target, "it is a directory, and a file cannot replace it")
			}
			return os.Rename(name, target) //nolint:gosec // the staged tree is this process's own
		}
		if info, err := os.Lstat(target); err == nil && info.IsDir() {
			return nil
		}
		if err := os.Rename(name, target); err != nil { //nolint:gosec // the staged tree is this process's own
			return err
		}
		return fs.SkipDir
	})
}
