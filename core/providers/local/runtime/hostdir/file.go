//go:build linux

package hostdir

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/fsutil"
	"gvisor.dev/gvisor/pkg/lisafs"

	"github.com/seed-0724f904/sb/core/providers/local/runtime/hostfd"
)

// file is a file of a share after a lookup by the sandbox's kernel.
type file struct {
	lisafs.ControlFD

	share *share
	// fd is open for reading if the file is a regular file or a directory, else with O_PATH.
	fd int
}

var _ lisafs.ControlFDImpl = (*file)(nil)

// FD implements lisafs.ControlFDImpl.
func (f *file) FD() *lisafs.ControlFD { return &f.ControlFD }

// Close implements lisafs.ControlFDImpl.
func (f *file) Close() { _ = unix.Close(f.fd) }

// open opens the entry name of a directory. It follows no link, and never opens a device, a pipe or a socket.
func (s *share) open(dir int, name string) (fd int, err error) {
	var attr unix.Stat_t
	if err := unix.Fstatat(dir, name, &attr, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	const always = unix.O_NOFOLLOW | unix.O_CLOEXEC
	if kind := attr.Mode & unix.S_IFMT; kind == unix.S_IFREG || kind == unix.S_IFDIR {
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|always, 0)
		if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			return fd, err
		}
	}
	return unix.Openat(dir, name, unix.O_PATH|always, 0)
}

// reopen opens the file of a descriptor again, with other flags.
func (s *share) reopen(fd int, flags uint32) (int, error) {
	const allowed = unix.O_ACCMODE | unix.O_TRUNC | unix.O_DIRECTORY
	return unix.Openat(s.fds, strconv.Itoa(fd), int(flags)&allowed|unix.O_CLOEXEC, 0)
}

// parent opens the directory that contains a file, and returns the file's name in it. ESTALE: another file is there.
func (f *file) parent() (dir int, name string, err error) {
	full := f.Node().FilePath()
	relative := strings.Trim(strings.TrimPrefix(full, f.share.path), "/")
	if relative == "" {
		return -1, "", unix.EINVAL
	}
	dir, err = unix.Openat2(f.share.root, path.Dir(relative), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return -1, "", err
	}
	name = path.Base(relative)
	var there, here unix.Stat_t
	if err = unix.Fstatat(dir, name, &there, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		err = unix.Fstat(f.fd, &here)
	}
	if err == nil && (there.Dev != here.Dev || there.Ino != here.Ino) {
		err = unix.ESTALE
	}
	if err != nil {
		_ = unix.Close(dir)
		return -1, "", err
	}
	return dir, name, nil
}

// child makes the file of an open descriptor, the entry name of f. After an error it closes the descriptor.
func (f *file) child(fd int, name string) (*file, lisafs.Statx, error) {
	attr, inside, err := f.share.stat(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, inside, err
	}
	child := &file{share: f.share, fd: fd}
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
	child.Init(f.Conn(), node, linux.FileMode(attr.Mode), child) //nolint:gosec // a mode has 16 bits
	return child, inside, nil
}

// Stat implements lisafs.ControlFDImpl.
func (f *file) Stat() (lisafs.Statx, error) {
	_, inside, err := f.share.stat(f.fd)
	return inside, err
}

// Walk implements lisafs.ControlFDImpl.
func (f *file) Walk(name string) (*lisafs.ControlFD, lisafs.Statx, error) {
	fd, err := f.share.open(f.fd, name)
	if err != nil {
		return nil, lisafs.Statx{}, err
	}
	child, inside, err := f.child(fd, name)
	if err != nil {
		return nil, inside, err
	}
	return child.FD(), inside, nil
}

// WalkStat implements lisafs.ControlFDImpl.
func (f *file) WalkStat(names lisafs.StringArray, record func(lisafs.Statx)) error {
	if len(names) > 0 && names[0] == "" {
		_, inside, err := f.share.stat(f.fd)
		if err != nil {
			return err
		}
		record(inside)
		names = names[1:]
	}
	if !f.IsDir() {
		return nil
	}
	at := f.fd
	defer func() {
		if at != f.fd {
			_ = unix.Close(at)
		}
	}()
	for _, name := range names {
		next, err := f.share.open(at, name)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			return nil // the answer is the part that was found
		}
		if err != nil {
			return err
		}
		if at != f.fd {
			_ = unix.Close(at)
		}
		at = next
		attr, inside, err := f.share.stat(at)
		if err != nil {
			return err
		}
		record(inside)
		if attr.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
	}
	return nil
}

// Open implements lisafs.ControlFDImpl. It opens regular files and directories only.
func (f *file) Open(flags uint32) (*lisafs.OpenFD, int, error) {
	switch f.FileType() {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		flags = unix.O_RDONLY | unix.O_DIRECTORY
	default:
		return nil, -1, unix.EPERM
	}
	fd, err := f.share.reopen(f.fd, flags)
	if err != nil {
		return nil, -1, err
	}
	opened, donated := f.opened(fd, flags)
	return opened.FD(), donated, nil
}

// opened makes the open file of a descriptor, and a copy of the descriptor for the sandbox's kernel. With it, the
// kernel reads and writes a regular file without this server. -1 is no copy.
func (f *file) opened(fd int, flags uint32) (opened *open, donated int) {
	opened, donated = &open{share: f.share, fd: fd}, -1
	if f.IsRegular() {
		donated, _ = unix.Dup(fd)
	}
	opened.Init(f.FD(), flags, opened)
	return opened, donated
}

// OpenCreate implements lisafs.ControlFDImpl.
func (f *file) OpenCreate(
	mode linux.FileMode, uid lisafs.UID, gid lisafs.GID, name string, flags uint32,
) (*lisafs.ControlFD, lisafs.Statx, *lisafs.OpenFD, int, error) {
	const create = unix.O_CREAT | unix.O_EXCL | unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(f.fd, name, create, onHost(mode))
	if err != nil {
		return nil, lisafs.Statx{}, nil, -1, err
	}
	opened := -1
	child, inside, err := f.finish(fd, name, uid, gid, mode, 0, func() (err error) {
		opened, err = f.share.reopen(fd, flags&^unix.O_TRUNC)
		return err
	})
	if err != nil {
		return nil, lisafs.Statx{}, nil, -1, err
	}
	o, donated := child.opened(opened, flags)
	return child.FD(), inside, o.FD(), donated, nil
}

// onHost returns the bits of a mode that a file gets on the host.
func onHost(mode linux.FileMode) uint32 { return uint32(mode) & (0o777 | unix.S_ISVTX) }

// finish completes a new file, the entry name of f. After an error it removes the file and closes the descriptor.
func (f *file) finish(
	fd int, name string, uid lisafs.UID, gid lisafs.GID, mode linux.FileMode, unlink int, more func() error,
) (*file, lisafs.Statx, error) {
	err := f.share.made(fd, uid, gid, uint32(mode))
	if err == nil && more != nil {
		err = more()
	}
	if err != nil {
		_ = unix.Unlinkat(f.fd, name, unlink)
		_ = unix.Close(fd)
		return nil, lisafs.Statx{}, err
	}
	return f.child(fd, name)
}

// Mkdir implements lisafs.ControlFDImpl.
func (f *file) Mkdir(
	mode linux.FileMode, uid lisafs.UID, gid lisafs.GID, name string,
) (*lisafs.ControlFD, lisafs.Statx, error) {
	if err := unix.Mkdirat(f.fd, name, onHost(mode)); err != nil {
		return nil, lisafs.Statx{}, err
	}
	return f.look(name, uid, gid, mode, unix.AT_REMOVEDIR)
}

// look opens a new file and completes it.
func (f *file) look(
	name string, uid lisafs.UID, gid lisafs.GID, mode linux.FileMode, unlink int,
) (*lisafs.ControlFD, lisafs.Statx, error) {
	fd, err := f.share.open(f.fd, name)
	if err != nil {
		return nil, lisafs.Statx{}, err
	}
	child, inside, err := f.finish(fd, name, uid, gid, mode, unlink, nil)
	if err != nil {
		return nil, lisafs.Statx{}, err
	}
	return child.FD(), inside, nil
}

// Mknod implements lisafs.ControlFDImpl. It makes regular files only. After EPERM the sandbox's kernel keeps pipes and
// sockets in its own memory.
func (f *file) Mknod(
	mode linux.FileMode, uid lisafs.UID, gid lisafs.GID, name string, _, _ uint32,
) (*lisafs.ControlFD, lisafs.Statx, error) {
	if mode.FileType() != linux.S_IFREG {
		return nil, lisafs.Statx{}, unix.EPERM
	}
	if err := unix.Mknodat(f.fd, name, unix.S_IFREG|onHost(mode), 0); err != nil {
		return nil, lisafs.Statx{}, err
	}
	return f.look(name, uid, gid, mode, 0)
}

// Symlink implements lisafs.ControlFDImpl. Nothing on the host's side follows the link.
func (f *file) Symlink(name, target string, _ lisafs.UID, _ lisafs.GID) (*lisafs.ControlFD, lisafs.Statx, error) {
	if err := unix.Symlinkat(target, f.fd, name); err != nil {
		return nil, lisafs.Statx{}, err
	}
	return f.Walk(name)
}

// Link implements lisafs.ControlFDImpl.
func (f *file) Link(to lisafs.ControlFDImpl, name string) (*lisafs.ControlFD, lisafs.Statx, error) {
	dir, ok := to.(*file)
	if !ok {
		return nil, lisafs.Statx{}, unix.EXDEV
	}
	old, oldName, err := f.parent()
	if err != nil {
		return nil, lisafs.Statx{}, err
	}
	defer func() { _ = unix.Close(old) }()
	if err := unix.Linkat(old, oldName, dir.fd, name, 0); err != nil {
		return nil, lisafs.Statx{}, err
	}
	return dir.Walk(name)
}

// Unlink implements lisafs.ControlFDImpl.
func (f *file) Unlink(name string, flags uint32) error { return unix.Unlinkat(f.fd, name, int(flags)) }

// RenameAt implements lisafs.ControlFDImpl.
func (f *file) RenameAt(oldName string, to lisafs.ControlFDImpl, newName string) error {
	return f.RenameAt2(oldName, to, newName, 0)
}

// RenameAt2 implements lisafs.ControlFDImpl.
func (f *file) RenameAt2(oldName string, to lisafs.ControlFDImpl, newName string, flags uint32) error {
	dir, ok := to.(*file)
	if !ok {
		return unix.EXDEV
	}
	return fsutil.RenameAt2(f.fd, oldName, dir.fd, newName, flags)
}

// Renamed implements lisafs.ControlFDImpl.
func (*file) Renamed() {}

// StatFS implements lisafs.ControlFDImpl.
func (f *file) StatFS() (lisafs.StatFS, error) { return hostfd.StatFS(f.fd) }

// Readlink implements lisafs.ControlFDImpl.
func (f *file) Readlink(buffer func(uint32) []byte) (uint16, error) {
	return hostfd.Readlink(f.fd, buffer)
}

// Connect implements lisafs.ControlFDImpl. A sandbox uses no socket of the host.
func (*file) Connect(uint32) (int, error) { return -1, unix.EPERM }

// ConnectWithCreds implements lisafs.ControlFDImpl.
func (*file) ConnectWithCreds(uint32, lisafs.UID, lisafs.GID) (int, error) { return -1, unix.EPERM }

// BindAt implements lisafs.ControlFDImpl.
func (*file) BindAt(
	string, uint32, linux.FileMode, lisafs.UID, lisafs.GID,
) (*lisafs.ControlFD, lisafs.Statx, *lisafs.BoundSocketFD, int, error) {
	return nil, lisafs.Statx{}, nil, -1, unix.EPERM
}

// plainFile reports whether the file can have extended attributes here.
func (f *file) plainFile() bool { return f.IsRegular() || f.IsDir() }

// GetXattr implements lisafs.ControlFDImpl.
func (f *file) GetXattr(name string, size uint32, buffer func(uint32) []byte) (uint16, error) {
	if !f.plainFile() || !visible(name) {
		return 0, unix.ENODATA
	}
	return hostfd.GetXattr(f.fd, name, size, buffer)
}

// SetXattr implements lisafs.ControlFDImpl.
func (f *file) SetXattr(name, value string, flags uint32) error {
	if !f.plainFile() || !visible(name) {
		return unix.EPERM
	}
	return unix.Fsetxattr(f.fd, name, []byte(value), int(flags))
}

// ListXattr implements lisafs.ControlFDImpl.
func (f *file) ListXattr(uint64) (lisafs.StringArray, error) {
	if !f.plainFile() {
		return nil, nil
	}
	names, err := hostfd.ListXattr(f.fd)
	return slices.DeleteFunc(names, func(name string) bool { return !visible(name) }), err
}

// RemoveXattr implements lisafs.ControlFDImpl.
func (f *file) RemoveXattr(name string) error {
	if !f.plainFile() || !visible(name) {
		return unix.ENODATA
	}
	return unix.Fremovexattr(f.fd, name)
}
