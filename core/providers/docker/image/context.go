package image

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

func addFile(w *tar.Writer, name string, content []byte) error {
	if err := w.WriteHeader(&tar.Header{
		Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg,
	}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// addContext adds a directory without the files that its .dockerignore lists. The Dockerfile is always added, and its
// own .dockerignore comes first.
func addContext(ctx context.Context, w *tar.Writer, dir, dockerfile string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	ignored, err := ignorePatterns(root, dockerfile)
	if err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil || path == "." {
			return err
		}
		if path != dockerfile {
			skip, err := ignored.MatchesOrParentMatches(path)
			if err != nil {
				return err
			}
			if skip && entry.IsDir() && !ignored.Exclusions() {
				return fs.SkipDir
			}
			if skip {
				return nil
			}
		}
		return addEntry(w, root, path, entry)
	})
}

func ignorePatterns(root *os.Root, dockerfile string) (*patternmatcher.PatternMatcher, error) {
	f, err := root.Open(dockerfile + ".dockerignore")
	if errors.Is(err, fs.ErrNotExist) {
		f, err = root.Open(".dockerignore")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return patternmatcher.New(nil)
	}
	if err != nil {
		return nil, err
	}
	patterns, err := ignorefile.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return patternmatcher.New(patterns)
}

// addEntry adds one file, directory or link, owned by root. It skips other kinds.
func addEntry(w *tar.Writer, root *os.Root, path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	link := ""
	switch info.Mode().Type() {
	case 0, fs.ModeDir:
	case fs.ModeSymlink:
		if link, err = root.Readlink(path); err != nil {
			return err
		}
	default:
		return nil
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = filepath.ToSlash(path), 0, 0, "", ""
	if info.IsDir() {
		h.Name += "/"
	}
	if err := w.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := root.Open(path)
	if err != nil {
		return err
	}
	_, err = io.CopyN(w, f, h.Size)
	return errors.Join(err, f.Close())
}
