//go:build linux

package inside

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
)

// export writes root as a PAX archive to w, until ctx ends. It skips files that vanish in between, and the report names
// them.
func export(ctx context.Context, w io.Writer, root string, report *guest.Report) error {
	buffered := bufio.NewWriterSize(w, copyBuffer)
	e := exporter{
		ctx: ctx, tar: tar.NewWriter(buffered), report: report,
		links: map[inode]string{}, buf: make([]byte, copyBuffer), above: path.Dir(root),
	}
	// Do not follow a symbolic link at the end of the path.
	parent, err := openDir(unix.AT_FDCWD, path.Dir(root))
	if err != nil {
		return err
	}
	base := path.Base(root)
	if root == "/" {
		base = "."
	}
	err = e.add(parent, base, base, fs.ModeIrregular)
	_ = unix.Close(parent)
	if err != nil {
		return err
	}
	if err := e.tar.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

type inode struct{ dev, ino uint64 }

type exporter struct {
	ctx    context.Context //nolint:containedctx // one lives for one archive
	tar    *tar.Writer
	report *guest.Report
	links  map[inode]string // files with several names, to the name already sent
	buf    []byte
	above  string // the directory at which names begin
}

func (e *exporter) path(name string) string { return path.Join(e.above, name) }

// add sends the file or tree called base in the directory dir, under name. kind is the directory entry's type;
// fs.ModeIrregular means that the entry has none. Files are opened by their last element, because each further element
// of a path costs time.
func (e *exporter) add(dir int, base, name string, kind fs.FileMode) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	if kind == 0 {
		return e.regular(dir, base, name)
	}
	var st unix.Stat_t
	err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT) && name != base:
		e.report.Skip(e.path(name))
		return nil
	case err != nil:
		return &fs.PathError{Op: "lstat", Path: e.path(name), Err: err}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return e.regular(dir, base, name)
	case unix.S_IFDIR:
		return e.directory(dir, base, header(&st, tar.TypeDir, name+"/"))
	case unix.S_IFLNK:
		h := header(&st, tar.TypeSymlink, name)
		h.Linkname, err = readlink(dir, base, st.Size)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL): // removed or replaced since
			e.report.Skip(e.path(name))
			return nil
		case err != nil:
			return &fs.PathError{Op: "readlink", Path: e.path(name), Err: err}
		}
		return e.tar.WriteHeader(h)
	case unix.S_IFIFO:
		return e.tar.WriteHeader(header(&st, tar.TypeFifo, name))
	case unix.S_IFCHR:
		return e.tar.WriteHeader(device(&st, tar.TypeChar, name))
	case unix.S_IFBLK:
		return e.tar.WriteHeader(device(&st, tar.TypeBlock, name))
	case unix.S_IFSOCK:
		return e.tar.WriteHeader(header(&st, guest.TypeSocket, name))
	}
	e.report.Skip(e.path(name))
	return nil
}

func device(st *unix.Stat_t, kind byte, name string) *tar.Header {
	h := header(st, kind, name)
	h.Devmajor, h.Devminor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	return h
}

func header(st *unix.Stat_t, kind byte, name string) *tar.Header {
	return &tar.Header{
		Format: tar.FormatPAX, Typeflag: kind, Name: name, Mode: int64(st.Mode & 0o7777),
		Uid: int(st.Uid), Gid: int(st.Gid), ModTime: time.Unix(st.Mtim.Unix()),
	}
}

func readlink(dir int, base string, size int64) (string, error) {
	for buf := make([]byte, size+1); ; buf = make([]byte, 2*len(buf)) {
		n, err := unix.Readlinkat(dir, base, buf)
		if err != nil || n < len(buf) {
			return string(buf[:max(n, 0)]), err
		}
	}
}

func openDir(dir int, base string) (int, error) {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fd, &fs.PathError{Op: "open", Path: base, Err: err}
	}
	return fd, nil
}

// vanished reports whether a listed file is gone, or of another type by now.
func vanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.ENXIO)
}

// directory sends a directory and its content. Only the root of the export must exist.
func (e *exporter) directory(parent int, base string, h *tar.Header) error {
	whole := h.Name == base+"/"
	fd, err := unix.Openat(parent, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case vanished(err) && !whole:
		e.report.Skip(e.path(h.Name))
		return nil
	case err != nil:
		return &fs.PathError{Op: "open", Path: e.path(h.Name), Err: err}
	}
	dir := os.NewFile(uintptr(fd), e.path(h.Name))
	defer func() { _ = dir.Close() }()
	entries, err := dir.ReadDir(-1)
	switch {
	case vanished(err) && !whole:
		e.report.Skip(e.path(h.Name))
		return nil
	case err != nil:
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	if err := e.tar.WriteHeader(h); err != nil {
		return err
	}
	for _, entry := range entries {
		if err := e.add(fd, entry.Name(), h.Name+entry.Name(), entry.Type()); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) regular(dir int, base, name string) error {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case vanished(err):
		e.report.Skip(e.path(name))
		return nil
	case err != nil:
		return &fs.PathError{Op: "open", Path: e.path(name), Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: e.path(name), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		e.report.Skip(e.path(name))
		return nil
	}
	h := header(&st, tar.TypeReg, name)
	if st.Nlink > 1 {
		id := inode{st.Dev, st.Ino}
		if first, ok := e.links[id]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return e.tar.WriteHeader(h)
		}
		e.links[id] = name
	}
	h.Size = st.Size
	if err := e.tar.WriteHeader(h); err != nil {
		return err
	}
	for left := st.Size; left > 0; {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		n, err := fdReader(fd).Read(e.buf[:min(left, int64(len(e.buf)))])
		if errors.Is(err, io.EOF) {
			return core.Errorf(core.KindConflict, "", e.path(name), "the file shrank while it was read")
		}
		if err != nil {
			return &fs.PathError{Op: "read", Path: e.path(name), Err: err}
		}
		if _, err := e.tar.Write(e.buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}
