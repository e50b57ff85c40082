//go:build linux

package hostfd

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/fsutil"
	"gvisor.dev/gvisor/pkg/lisafs"
	"gvisor.dev/gvisor/pkg/marshal/primitive"
)

// StatFS describes the file system of fd.
func StatFS(fd int) (lisafs.StatFS, error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(fd, &s); err != nil {
		return lisafs.StatFS{}, err
	}
	return lisafs.StatFS{
		//nolint:gosec // a number that names a file system
		Type: uint64(s.Type), BlockSize: s.Bsize, Blocks: s.Blocks, BlocksFree: s.Bfree, BlocksAvailable: s.Bavail,
		Files: s.Files, FilesFree: s.Ffree, NameLength: uint64(s.Namelen), //nolint:gosec // a length
	}, nil
}

// Readlink reads the target of the symbolic link fd, an O_PATH descriptor, into buffer and returns its length.
func Readlink(fd int, buffer func(uint32) []byte) (uint16, error) {
	n, err := unix.Readlinkat(fd, "", buffer(unix.PathMax))
	return uint16(max(n, 0)), err //nolint:gosec // a path
}

// GetXattr reads an extended attribute of fd into buffer and returns its length. A size of 0 is the largest one.
func GetXattr(fd int, name string, size uint32, buffer func(uint32) []byte) (uint16, error) {
	if size == 0 || size > linux.XATTR_SIZE_MAX {
		size = linux.XATTR_SIZE_MAX
	}
	n, err := unix.Fgetxattr(fd, name, buffer(size))
	return uint16(max(n, 0)), err //nolint:gosec // at most XATTR_SIZE_MAX
}

// ListXattr returns the names of the extended attributes of fd.
func ListXattr(fd int) (lisafs.StringArray, error) {
	list := make([]byte, linux.XATTR_LIST_MAX)
	n, err := unix.Flistxattr(fd, list)
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

// Read fills buf from the offset off. It returns fewer bytes at the end of the file, or when a later part fails.
func Read(fd int, buf []byte, off uint64) (uint64, error) {
	return all(buf, off, func(b []byte, at int64) (int, error) { return unix.Pread(fd, b, at) })
}

// Write writes buf at the offset off. It returns fewer bytes when a later part fails.
func Write(fd int, buf []byte, off uint64) (uint64, error) {
	return all(buf, off, func(b []byte, at int64) (int, error) { return unix.Pwrite(fd, b, at) })
}

// all repeats a call of pread or pwrite until the buffer is done, the call returns 0, or it fails.
func all(buf []byte, off uint64, call func([]byte, int64) (int, error)) (uint64, error) {
	var total int
	for total < len(buf) {
		n, err := call(buf[total:], int64(off)+int64(total)) //nolint:gosec // the kernel refuses what is negative
		switch {
		case errors.Is(err, unix.EINTR):
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

// Getdent64 records about count bytes of entries of the directory fd, from its position or, with seek0, from the start.
// device returns the device of an entry; an entry for which it returns false is left out.
func Getdent64(
	fd int, count uint32, seek0 bool, device func(name string) (major, minor uint32, ok bool),
	record func(lisafs.Dirent64),
) error {
	if seek0 {
		if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
			return err
		}
	}
	var buf [8 << 10]byte
	for recorded := 0; recorded < int(count); {
		n, err := unix.Getdents(fd, buf[:min(len(buf), max(int(count)-recorded, fsutil.UnixDirentMaxSize))])
		if err != nil || n <= 0 {
			return err
		}
		fsutil.ParseDirents(buf[:n], func(ino uint64, off int64, kind uint8, name string, length uint16) {
			major, minor, ok := device(name)
			if !ok {
				return
			}
			record(lisafs.Dirent64{
				//nolint:gosec // a position
				Ino: primitive.Uint64(ino), Off: primitive.Uint64(off), Type: primitive.Uint8(kind),
				Name: lisafs.SizedString(name), DevMinor: primitive.Uint32(minor), DevMajor: primitive.Uint32(major),
			})
			recorded += int(length)
		})
	}
	return nil
}
