//go:build linux

package hostview

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/fsutil"
	"gvisor.dev/gvisor/pkg/lisafs"
	"gvisor.dev/gvisor/pkg/marshal/primitive"
)

// file is a file of the view after a lookup by the sandbox's kernel.
type file struct {
	lisafs.ControlFD
	readOnly

	view *view
	// fd is open for reading if the file is a regular file, else with O_PATH.
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
	if fd, err = unix.Openat(dirFD, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
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
		if opened.fd, err = unix.Dup(f.fd); err != nil {
			return nil, -1, err
		}
		donated, _ = unix.Dup(f.fd) // without it the kernel inside reads through this server
	case unix.S_IFDIR:
		// A new descriptor has its own position. lists checks the rights of other users.
		opened.fd, err = unix.Openat(f.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == unix.EACCES {
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

// StatFS implements lisafs.ControlFDImpl.
func (f *file) StatFS() (lisafs.StatFS, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(f.fd, &s); err != nil {
		return lisafs.StatFS{}, err
	}
	return lisafs.StatFS{
		//nolint:gosec // a number that names a file system
		Type: uint64(s.Type), BlockSize: s.Bsize, Blocks: s.Blocks, BlocksFree: s.Bfree, BlocksAvailable: s.Bavail,
		Files: s.Files, FilesFree: s.Ffree, NameLength: uint64(s.Namelen), //nolint:gosec // a length
	}, nil
}

// Readlink implements lisafs.ControlFDImpl.
func (f *file) Readlink(buffer func(uint32) []byte) (uint16, error) {
	n, err := unix.Readlinkat(f.fd, "", buffer(unix.PathMax))
	return uint16(max(n, 0)), err //nolint:gosec // a path
}

// GetXattr implements lisafs.ControlFDImpl. Only regular files have extended attributes here.
func (f *file) GetXattr(name string, size uint32, buffer func(uint32) []byte) (uint16, error) {
	if !f.IsRegular() {
		return 0, unix.ENODATA
	}
	if size == 0 || size > linux.XATTR_SIZE_MAX {
		size = linux.XATTR_SIZE_MAX
	}
	n, err := unix.Fgetxattr(f.fd, name, buffer(size))
	return uint16(max(n, 0)), err //nolint:gosec // at most XATTR_SIZE_MAX
}

// ListXattr implements lisafs.ControlFDImpl.
func (f *file) ListXattr(uint64) (lisafs.StringArray, error) {
	if !f.IsRegular() {
		return nil, nil
	}
	list := make([]byte, linux.XATTR_LIST_MAX)
	n, err := unix.Flistxattr(f.fd, list)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range bytes.SplitSeq(list[:n], []byte{0}) {
		if len(name) > 0 {
			names = append(names, string(name))
		}
	}
	return names, nil
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
func (o *open) Read(buf []byte, off uint64) (uint64, error) {
	var total int
	for total < len(buf) {
		n, err := unix.Pread(o.fd, buf[total:], int64(off)+int64(total)) //nolint:gosec // the kernel refuses what is negative
		switch {
		case err == unix.EINTR:
			continue
		case err != nil && total == 0:
			return 0, err
		case err != nil || n == 0:
			return uint64(total), nil
		}
		total += n
	}
	return uint64(total), nil
}

// Getdent64 implements lisafs.OpenFDImpl.
func (o *open) Getdent64(count uint32, seek0 bool, record func(lisafs.Dirent64)) error {
	dir, err := stat(o.fd, "")
	if err != nil || !o.file.view.lists(dir) {
		return err
	}
	if seek0 {
		if _, err := unix.Seek(o.fd, 0, 0); err != nil {
			return err
		}
	}
	path := o.file.Node().FilePath
	var buf [8 << 10]byte
	for recorded := 0; recorded < int(count); {
		n, err := unix.Getdents(o.fd, buf[:min(len(buf), max(int(count)-recorded, fsutil.UnixDirentMaxSize))])
		if err != nil || n <= 0 {
			return err
		}
		fsutil.ParseDirents(buf[:n], func(ino uint64, off int64, kind uint8, name string, length uint16) {
			attr, err := o.file.view.look(o.fd, dir, path, name)
			if err != nil {
				return
			}
			record(lisafs.Dirent64{
				//nolint:gosec // a position
				Ino: primitive.Uint64(ino), Off: primitive.Uint64(off), Type: primitive.Uint8(kind), Name: lisafs.SizedString(name),
				DevMinor: primitive.Uint32(attr.Dev_minor), DevMajor: primitive.Uint32(attr.Dev_major),
			})
			recorded += int(length)
		})
	}
	return nil
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
