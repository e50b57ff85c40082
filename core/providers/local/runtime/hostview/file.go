//go:build linux

package hostview

import (
	"errors"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/lisafs"

	"github.com/seed-0724f904/sb/core/providers/local/runtime/hostfd"
)

// file is a file of the view after a lookup by the sandbox's kernel.
type file struct {
	lisafs.ControlFD
	readOnly

	view *view
	// fd is open for reading if the file is a regular file that this process may read, else with O_PATH.
	fd   int
	attr unix.Statx_t // at the time of the lookup
}

var _ lisafs.ControlFDImpl = (*file)(nil)

// FD implements lisafs.ControlFDImpl.
func (f *file) FD() *lisafs.ControlFD { return &f.ControlFD }

// Close implements lisafs.ControlFDImpl.
func (f *file) Close() { _ = unix.Close(f.fd) }

// Stat implements lisafs.ControlFDImpl.
func (f *file) Stat() (lisafs.Statx, error) {
	attr, err := stat(f.fd, "")
	return answer(attr), err
}

// Walk implements lisafs.ControlFDImpl.
func (f *file) Walk(name string) (*lisafs.ControlFD, lisafs.Statx, error) {
	dir, err := stat(f.fd, "")
	if err != nil {
		return nil, lisafs.Statx{}, err
	}
	fd, attr, err := f.view.open(f.fd, dir, f.Node().FilePath, name)
	if err != nil {
		return nil, lisafs.Statx{}, err
	}
	child := &file{view: f.view, fd: fd, attr: attr}
	var node *lisafs.Node
	parent := f.Node()
	parent.WithChildrenMu(func() {
		if node = parent.LookupChildLocked(name); node != nil {
			node.IncRef()
			return
		}
		node = &lisafs.Node{}
		node.InitLocked(name, parent)
	})
	child.Init(f.Conn(), node, mode(attr), child)
	return child.FD(), answer(attr), nil
}

// open opens the entry name of a directory, if it is shown. It never opens a device or a pipe.
func (v *view) open(
	dirFD int, dir unix.Statx_t, path func() string, name string,
) (fd int, attr unix.Statx_t, err error) {
	if attr, err = v.look(dirFD, dir, path, name); err != nil {
		return -1, attr, err
	}
	flags := unix.O_PATH
	if isRegular(attr) {
		flags = unix.O_RDONLY | unix.O_NONBLOCK
	}
	fd, err = unix.Openat(dirFD, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) && v.own[attr.Mnt_id] {
		// The file is visible, and cannot be opened.
		fd, err = unix.Openat(dirFD, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return -1, attr, err
	}
	// Another file may have replaced it.
	regular := isRegular(attr)
	if attr, err = stat(fd, ""); err == nil && (isRegular(attr) != regular || !v.shows(dir, path, name, attr)) {
		err = unix.ENOENT
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, attr, err
	}
	return fd, attr, nil
}

// look returns the attributes of the entry name of a directory. The error is ENOENT for a file that is not shown.
func (v *view) look(dirFD int, dir unix.Statx_t, path func() string, name string) (unix.Statx_t, error) {
	attr, err := stat(dirFD, name)
	if errors.Is(err, unix.EACCES) || err == nil && !v.shows(dir, path, name, attr) {
		return attr, unix.ENOENT
	}
	return attr, err
}

// WalkStat implements lisafs.ControlFDImpl.
func (f *file) WalkStat(names lisafs.StringArray, record func(lisafs.Statx)) error {
	attr, err := stat(f.fd, "")
	if err != nil {
		return err
	}
	if len(names) > 0 && names[0] == "" {
		record(answer(attr))
		names = names[1:]
	}
	at, dir := f.fd, f.Node().FilePath()
	defer func() {
		if at != f.fd {
			_ = unix.Close(at)
		}
	}()
	for _, name := range names {
		if attr.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
		next, child, err := f.view.open(at, attr, func() string { return dir }, name)
		if errors.Is(err, unix.ENOENT) {
			return nil // the answer is the part that was found
		}
		if err != nil {
			return err
		}
		if at != f.fd {
			_ = unix.Close(at)
		}
		at, attr, dir = next, child, dir+"/"+name
		record(answer(attr))
	}
	return nil
}

// Open implements lisafs.ControlFDImpl.
func (f *file) Open(flags uint32) (*lisafs.OpenFD, int, error) {
	opened := &open{file: f}
	donated := -1
	var err error
	switch f.FileType() {
	case unix.S_IFREG:
		if !readable(f.fd) {
			return nil, -1, unix.EACCES
		}
		if opened.fd, err = unix.Dup(f.fd); err != nil {
			return nil, -1, err
		}
		donated, _ = unix.Dup(f.fd) // without it the kernel inside reads through this server
	case unix.S_IFDIR:
		// A new descriptor has its own position. lists checks the rights of other users.
		opened.fd, err = unix.Openat(f.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == unix.EACCES && !f.view.own[f.attr.Mnt_id] {
			opened.fd, err = unix.Dup(f.fd)
		}
	default:
		err = unix.EPERM
	}
	if err != nil {
		return nil, -1, err
	}
	opened.Init(f.FD(), flags, opened)
	return opened.FD(), donated, nil
}

// readable reports whether a descriptor is open for reading.
func readable(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_PATH == 0
}

// StatFS implements lisafs.ControlFDImpl.
func (f *file) StatFS() (lisafs.StatFS, error) { return hostfd.StatFS(f.fd) }

// Readlink implements lisafs.ControlFDImpl.
func (f *file) Readlink(buffer func(uint32) []byte) (uint16, error) {
	return hostfd.Readlink(f.fd, buffer)
}

// GetXattr implements lisafs.ControlFDImpl. Only regular files have extended attributes here.
func (f *file) GetXattr(name string, size uint32, buffer func(uint32) []byte) (uint16, error) {
	if !f.IsRegular() {
		return 0, unix.ENODATA
	}
	return hostfd.GetXattr(f.fd, name, size, buffer)
}

// ListXattr implements lisafs.ControlFDImpl.
func (f *file) ListXattr(uint64) (lisafs.StringArray, error) {
	if !f.IsRegular() {
		return nil, nil
	}
	return hostfd.ListXattr(f.fd)
}

// open is an open file.
type open struct {
	lisafs.OpenFD

	file *file
	fd   int
}

var _ lisafs.OpenFDImpl = (*open)(nil)

// FD implements lisafs.OpenFDImpl.
func (o *open) FD() *lisafs.OpenFD { return &o.OpenFD }

// Close implements lisafs.OpenFDImpl.
func (o *open) Close() { _ = unix.Close(o.fd) }

// Stat implements lisafs.OpenFDImpl.
func (o *open) Stat() (lisafs.Statx, error) {
	attr, err := stat(o.fd, "")
	return answer(attr), err
}

// Read implements lisafs.OpenFDImpl.
func (o *open) Read(buf []byte, off uint64) (uint64, error) { return hostfd.Read(o.fd, buf, off) }

// Getdent64 implements lisafs.OpenFDImpl.
func (o *open) Getdent64(count uint32, seek0 bool, record func(lisafs.Dirent64)) error {
	dir, err := stat(o.fd, "")
	if err != nil || !o.file.view.lists(dir) {
		return err
	}
	path := o.file.Node().FilePath
	device := func(name string) (major, minor uint32, ok bool) {
		attr, err := o.file.view.look(o.fd, dir, path, name)
		return attr.Dev_major, attr.Dev_minor, err == nil
	}
	return hostfd.Getdent64(o.fd, count, seek0, device, record)
}

// Sync implements lisafs.OpenFDImpl.
func (*open) Sync() error { return nil }

// Write implements lisafs.OpenFDImpl.
func (*open) Write([]byte, uint64) (uint64, error) { return 0, unix.EROFS }

// Allocate implements lisafs.OpenFDImpl.
func (*open) Allocate(uint64, uint64, uint64) error { return unix.EROFS }

// Flush implements lisafs.OpenFDImpl.
func (*open) Flush() error { return nil }

// Renamed implements lisafs.OpenFDImpl.
func (*open) Renamed() {}
