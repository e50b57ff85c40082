package transfer

import (
	"archive/tar"
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/internal/sparse"
)

// pull copies from a sandbox to this machine.
func (c *copier) pull() error {
	name, base, content := source(c.From.Path)
	info, err := c.Stat(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	if content {
		if name, info, err = c.followed(name, info); err != nil {
			return err
		}
	}
	directory := info.Mode.IsDir()
	place, err := hostTarget(c.To.Path, base, directory, content && directory)
	if err != nil {
		return err
	}
	if err := c.checkGit(place.name); err != nil {
		return err
	}
	if directory {
		return c.pullTree(name, place)
	}
	return c.pullFile(name, info, place)
}

// tempName returns a name that no other file has.
func tempName() string { return ".sb-" + rand.Text() }

// pullFile copies one file beside its target, then renames it. It writes directly to a device or a pipe that the user
// named.
func (c *copier) pullFile(name string, info core.FileInfo, place hostPlace) (err error) {
	if place.special {
		return c.pullInto(place.name, name, info)
	}
	content, err := c.ReadFile(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	dir, err := os.OpenRoot(filepath.Dir(place.name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	temp := tempName()
	f, err := dir.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dir.Remove(temp))
		}
	}()
	c.total, c.result.Files = info.Size, 1
	mode, modTime := info.Mode, info.ModTime
	if mode&fs.ModeSymlink != 0 { // the mode of the link's target is unknown
		mode, modTime = 0o644, time.Time{}
	}
	if err = errors.Join(c.fill(f, content, path.Base(name), mode), f.Close()); err != nil {
		return err
	}
	if !modTime.IsZero() {
		if err = dir.Chtimes(temp, modTime, modTime); err != nil {
			return err
		}
	}
	return replace(dir, temp, filepath.Base(place.name))
}

// specialBits are the mode bits that no copy to this machine has.
const specialBits = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// fill writes content to a new file and sets its mode. It drops special bits: they could let a sandbox's program run as
// the user of this machine.
func (c *copier) fill(f *os.File, content io.Reader, name string, mode fs.FileMode) error {
	if mode&specialBits != 0 {
		c.notices.add(noticeBits, name)
	}
	holes := sparse.NewWriter(f)
	_, err := io.CopyBuffer(holes, struct{ io.Reader }{counted{c, content}}, c.buffer())
	if err == nil {
		err = holes.Finish()
	}
	return errors.Join(err, f.Chmod(mode.Perm()))
}

// pullInto writes a file's content to a local device or pipe.
func (c *copier) pullInto(target, name string, info core.FileInfo) (err error) {
	content, err := c.ReadFile(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	f, err := os.OpenFile(target, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	c.total, c.result.Files = info.Size, 1
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, counted{c, content}, c.buffer())
	return errors.Join(err, f.Close())
}

// pullTree unpacks a directory near its target, and moves it there when it is complete.
func (c *copier) pullTree(name string, place hostPlace) (err error) {
	ignored, err := c.ignoredInside(name)
	if err != nil {
		return err
	}
	archive, err := c.Export(c.ctx, c.From.Sandbox, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	near := filepath.Dir(place.name)
	if place.exists {
		near = place.name // its parent may be on another disk, or belong to another user
	}
	dir, err := os.OpenRoot(near)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	staging := tempName()
	if err := dir.Mkdir(staging, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.RemoveAll(staging)) }()
	tree, err := dir.OpenRoot(staging)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	u := unpacking{copier: c, from: name, tree: tree, at: nearest{root: tree}, ignored: ignored, heirs: heirs{}}
	if place.exists {
		u.kept = keptGit(dir, c.IncludeGit)
	}
	if err := errors.Join(u.run(bufio.NewReaderSize(archive, copyBuffer)), u.at.close()); err != nil {
		return err
	}
	if !place.exists {
		if err := dir.Rename(staging, filepath.Base(place.name)); err != nil {
			return err
		}
		return finishDirectories(tree, u.directories)
	}
	if err := checkMerge(dir, staging); err != nil {
		return err
	}
	old, err := merge(dir, staging)
	if err != nil {
		return err
	}
	return finishDirectories(dir, slices.DeleteFunc(u.directories, func(d directory) bool { return old[d.name] }))
}

// unpacking converts an archive to a tree.
type unpacking struct {
	*copier
	from    string // the tree's path in the sandbox
	tree    *os.Root
	at      nearest // in tree
	ignored *ignore
	// kept reports names that are skipped because the target has its own repository; nil skips none.
	kept  func(name string) bool
	heirs heirs
	// directories get their modes and times last.
	directories []directory
}

// directory is an unpacked directory.
type directory struct {
	name    string
	mode    fs.FileMode
	modTime time.Time
}

// run unpacks an archive of a sandbox into an empty tree.
func (u *unpacking) run(archive io.Reader) error {
	return u.entries(archive, func(r *tar.Reader, header *tar.Header) error {
		if u.ignored.excluded(header.Name, header.Typeflag == tar.TypeDir) {
			return nil
		}
		if u.kept != nil && u.kept(header.Name) {
			if strings.EqualFold(path.Base(header.Name), gitName) {
				u.notices.add(noticeGit, header.Name)
			}
			return nil
		}
		content, err := u.contentOf(r, header, u.from, u.leftOut, u.heirs)
		if err != nil {
			return err
		}
		return errors.Join(u.entry(content, header), content.Close())
	})
}

// leftOut reports whether a file of the archive is skipped.
func (u *unpacking) leftOut(name string) bool {
	return u.ignored.excluded(name, false) || u.kept != nil && u.kept(name)
}

func (u *unpacking) entry(r io.Reader, header *tar.Header) error {
	name, mode := header.Name, header.FileInfo().Mode()
	switch header.Typeflag {
	case tar.TypeDir:
		if mode&specialBits != 0 {
			u.notices.add(noticeBits, name)
		}
		u.directories = append(u.directories, directory{name, mode.Perm(), header.ModTime})
		u.result.Files++
		return u.tree.MkdirAll(name, 0o700)
	case tar.TypeSymlink:
		if leadsOutside(name, header.Linkname) {
			u.notices.add(noticeOutside, name+" -> "+header.Linkname)
		}
		u.result.Files++
		return u.tree.Symlink(header.Linkname, name)
	case tar.TypeLink:
		u.result.Files++
		return u.tree.Link(header.Linkname, name)
	case tar.TypeReg:
		u.result.Files++
		dir, base, err := u.at.in(name)
		if err != nil {
			return err
		}
		f, err := dir.OpenFile(base, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return named(err, name)
		}
		if err := errors.Join(u.fill(f, r, name, mode), f.Close()); err != nil {
			return err
		}
		return named(dir.Chtimes(base, header.ModTime, header.ModTime), name)
	}
	u.notFile(header)
	return nil
}

// finishDirectories sets modes and times from the deepest directory up. It runs after the tree is in place, since a
// directory without write permission can neither be filled nor moved.
func finishDirectories(tree *os.Root, directories []directory) error {
	for _, d := range slices.Backward(directories) {
		if err := errors.Join(tree.Chtimes(d.name, d.modTime, d.modTime), tree.Chmod(d.name, d.mode)); err != nil {
			return err
		}
	}
	return nil
}
