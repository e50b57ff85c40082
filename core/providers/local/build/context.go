package build

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/seed-0724f904/sb/core"
)

// buildContext is the directory that a build copies from. nil is none. os.Root keeps it from leading out.
type buildContext struct {
	root    *os.Root
	ignored *patternmatcher.PatternMatcher
}

// openContext opens the directory of a build. file is the Dockerfile, whose own .dockerignore comes first.
func openContext(dir, file string) (*buildContext, error) {
	if dir == "" {
		return nil, nil //nolint:nilnil // there is no directory
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, core.Errorf(core.KindNotFound, "local.build", dir, "the directory cannot be read: %w", err)
	}
	c := &buildContext{root: root}
	if c.ignored, err = ignorePatterns(root, file); err != nil {
		_ = root.Close()
		return nil, core.Errorf(core.KindUsage, "local.build", dir, "its .dockerignore cannot be used: %w", err)
	}
	return c, nil
}

func (c *buildContext) close() error {
	if c == nil {
		return nil
	}
	return c.root.Close()
}

func ignorePatterns(root *os.Root, file string) (*patternmatcher.PatternMatcher, error) {
	var f fs.File
	err := fs.ErrNotExist
	if file != "" {
		f, err = os.Open(file + ".dockerignore")
	}
	if errors.Is(err, fs.ErrNotExist) {
		f, err = root.Open(".dockerignore")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return patternmatcher.New(nil)
	}
	if err != nil {
		return nil, err
	}
	patterns, err := ignorefile.ReadAll(io.LimitReader(f, maxDockerfile))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return patternmatcher.New(patterns)
}

// item is a file to copy.
type item struct {
	// name is the path below the source, "" for the source itself.
	name   string
	header tar.Header
	// sum is the SHA-256 of a regular file's content.
	sum string
	// link is the name of an earlier item that is the same file, or nil.
	link *string
	open func() (io.ReadCloser, error)
}

// match is a source of COPY with all below it.
type match struct {
	// name is the last element of the source's path.
	name  string
	dir   bool
	items []item
}

// match returns the files of a pattern, as COPY takes it.
func (c *buildContext) match(pattern string) ([]match, error) {
	if leadsOut(pattern) {
		return nil, fmt.Errorf("%s: the path leads out of the build's directory", pattern)
	}
	clean := path.Clean(strings.TrimLeft(filepath.ToSlash(pattern), "/"))
	if clean == "" || clean == "/" {
		clean = "."
	}
	if !strings.ContainsAny(clean, `*?[\`) {
		one, err := c.source(clean)
		if err == nil && one == nil {
			err = fmt.Errorf("%s: %w", pattern, c.why(clean))
		}
		if err != nil {
			return nil, err
		}
		return []match{*one}, nil
	}
	found, err := fs.Glob(c.root.FS(), clean)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	slices.Sort(found)
	var all []match
	for _, name := range found {
		one, err := c.source(name)
		if err != nil {
			return nil, err
		}
		if one != nil {
			all = append(all, *one)
		}
	}
	return all, nil
}

// why returns the reason that there is no such source.
func (c *buildContext) why(name string) error {
	if _, err := c.root.Stat(name); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return errors.New("there is no such file in the build's directory")
		}
		return outside(err)
	}
	return errors.New(".dockerignore leaves the file out")
}

// outside replaces the error of os.Root for a path that leads out.
func outside(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok && strings.Contains(e.Err.Error(), "escapes") {
		return fmt.Errorf("the path %s leads out of the build's directory through a symbolic link", e.Path)
	}
	return err
}

// source returns one source, or nil if it does not exist or is ignored. It follows a symbolic link inside the context.
func (c *buildContext) source(name string) (*match, error) {
	skip, err := c.skip(name)
	if err != nil {
		return nil, err
	}
	info, err := c.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, outside(err)
	}
	if !info.IsDir() {
		if skip {
			return nil, nil //nolint:nilnil // likewise
		}
		one, err := c.item(name, "", info)
		if err != nil {
			return nil, err
		}
		return &match{name: path.Base(name), items: []item{one}}, nil
	}
	// The entries of a linked directory are listed by their real path, because a walk does not follow links.
	m := &match{name: path.Base(name), dir: true, items: []item{{header: headerOf(info, "")}}}
	if err := c.walk(name, "", m); err != nil {
		return nil, err
	}
	if skip && len(m.items) == 1 && name != "." {
		return nil, nil //nolint:nilnil // likewise
	}
	return m, nil
}

// maxEntries bounds the files of one COPY.
const maxEntries = 1e6

// walk adds the entries of a directory to a match. below is the path below the source.
func (c *buildContext) walk(name, below string, m *match) error {
	dir, err := c.root.Open(name)
	if err != nil {
		return outside(err)
	}
	entries, err := dir.ReadDir(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		full, inside := path.Join(name, e.Name()), path.Join(below, e.Name())
		skip, err := c.skip(full)
		if err != nil {
			return err
		}
		if skip && (!e.IsDir() || !c.ignored.Exclusions()) {
			continue
		}
		info, err := c.root.Lstat(full)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since ReadDir
		}
		if err != nil {
			return outside(err)
		}
		switch info.Mode().Type() {
		case 0, fs.ModeSymlink:
			one, err := c.item(full, inside, info)
			if err != nil {
				return err
			}
			m.items = append(m.items, one)
		case fs.ModeDir:
			at := len(m.items)
			m.items = append(m.items, item{name: inside, header: headerOf(info, "")})
			if err := c.walk(full, inside, m); err != nil {
				return err
			}
			if skip && len(m.items) == at+1 {
				m.items = m.items[:at] // nothing in it is wanted
			}
		}
		if len(m.items) > maxEntries {
			return fmt.Errorf("%s has more than %d files", name, int(maxEntries))
		}
	}
	return nil
}

func (c *buildContext) skip(name string) (bool, error) {
	if name == "." {
		return false, nil
	}
	return c.ignored.MatchesOrParentMatches(name)
}

// item describes a regular file or a symbolic link.
func (c *buildContext) item(full, inside string, info fs.FileInfo) (item, error) {
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := c.root.Readlink(full)
		return item{name: inside, header: headerOf(info, to)}, err
	}
	if !info.Mode().IsRegular() {
		return item{}, fmt.Errorf("%s is no file, directory or symbolic link", full)
	}
	one := item{name: inside, header: headerOf(info, ""), open: func() (io.ReadCloser, error) {
		f, err := c.root.Open(full)
		if err != nil {
			return nil, outside(err)
		}
		return f, nil
	}}
	f, err := one.open()
	if err != nil {
		return item{}, err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if one.header.Size, err = io.Copy(sum, f); err != nil {
		return item{}, err
	}
	one.sum = hex.EncodeToString(sum.Sum(nil))
	return one, nil
}

// headerOf returns the attributes of a file of the context. Its owner is root.
func headerOf(info fs.FileInfo, to string) tar.Header {
	h := tar.Header{
		Typeflag: tar.TypeReg, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Linkname: to,
	}
	for bit, raw := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if info.Mode()&bit != 0 {
			h.Mode |= raw
		}
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		h.Typeflag = tar.TypeDir
	case fs.ModeSymlink:
		h.Typeflag, h.Mode = tar.TypeSymlink, 0o777
	}
	return h
}
