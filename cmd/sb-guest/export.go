//go:build linux

package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/guest"
)

// export writes root as a PAX archive to w. Devices, sockets and pipes are skipped, and
// files that vanish meanwhile; the report says so.
func export(w io.Writer, root string, report *guest.Report) error {
	buffered := bufio.NewWriterSize(w, copyBuffer)
	e := exporter{
		tar: tar.NewWriter(buffered), report: report,
		links: map[inode]string{}, buf: make([]byte, copyBuffer),
	}
	if _, err := os.Lstat(root); err != nil {
		return err
	}
	if err := e.add(root, path.Base(root)); err != nil {
		return err
	}
	if err := e.tar.Close(); err != nil {
		return err
	}
	return buffered.Flush()
}

type inode struct{ dev, ino uint64 }

type exporter struct {
	tar    *tar.Writer
	report *guest.Report
	links  map[inode]string // files with several names, by the name that was sent
	buf    []byte
}

// add sends the file or tree at file under name. The root directory's name is ".".
func (e *exporter) add(file, name string) error {
	if name == "/" {
		name = "."
	}
	info, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		e.report.Skip(file)
		return nil
	}
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return core.Errorf(core.KindInternal, "", file, "no file status")
	}
	h := &tar.Header{
		Format: tar.FormatPAX, Name: name, Mode: int64(st.Mode & 0o7777),
		Uid: int(st.Uid), Gid: int(st.Gid), ModTime: info.ModTime(),
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		return e.directory(file, name, h)
	case fs.ModeSymlink:
		if h.Linkname, err = os.Readlink(file); err != nil {
			return err
		}
		h.Typeflag = tar.TypeSymlink
		return e.tar.WriteHeader(h)
	case 0:
		h.Typeflag = tar.TypeReg
		return e.regular(file, h, st)
	}
	e.report.Skip(file)
	return nil
}

func (e *exporter) directory(file, name string, h *tar.Header) error {
	entries, err := os.ReadDir(file)
	if err != nil {
		return err
	}
	if err := e.tar.WriteHeader(h); err != nil {
		return err
	}
	for _, entry := range entries {
		child := file + "/" + entry.Name()
		if file == "/" {
			child = file + entry.Name()
		}
		if err := e.add(child, name+"/"+entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) regular(file string, h *tar.Header, st *syscall.Stat_t) error {
	if st.Nlink > 1 {
		id := inode{st.Dev, st.Ino}
		if first, ok := e.links[id]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return e.tar.WriteHeader(h)
		}
		e.links[id] = h.Name
	}
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		e.report.Skip(file)
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: file, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	h.Size = st.Size
	if err := e.tar.WriteHeader(h); err != nil {
		return err
	}
	for left := st.Size; left > 0; {
		n, err := fdReader(fd).Read(e.buf[:min(left, int64(len(e.buf)))])
		if errors.Is(err, io.EOF) {
			return core.Errorf(core.KindConflict, "", file, "the file shrank while it was read")
		}
		if err != nil {
			return &fs.PathError{Op: "read", Path: file, Err: err}
		}
		if _, err := e.tar.Write(e.buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}
