//go:build linux

package hostview

import (
	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/lisafs"
)

// stat returns the attributes of the entry name in the directory fd, or of fd if name is "". It does not follow links
// or trigger automounts.
func stat(fd int, name string) (attr unix.Statx_t, err error) {
	const flags = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	err = unix.Statx(fd, name, flags, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &attr)
	if err == nil && attr.Mask&unix.STATX_MNT_ID == 0 {
		return attr, unix.ENOSYS // Linux before 5.8
	}
	return attr, err
}

func isRegular(attr unix.Statx_t) bool { return attr.Mode&unix.S_IFMT == unix.S_IFREG }

func mode(attr unix.Statx_t) linux.FileMode { return linux.FileMode(attr.Mode) }

// answer returns the answer to the sandbox's kernel.
func answer(attr unix.Statx_t) lisafs.Statx {
	return lisafs.Statx{
		Mask: unix.STATX_BASIC_STATS, Mode: attr.Mode, Ino: attr.Ino, Nlink: attr.Nlink, UID: attr.Uid, GID: attr.Gid,
		DevMajor: attr.Dev_major, DevMinor: attr.Dev_minor, RdevMajor: attr.Rdev_major, RdevMinor: attr.Rdev_minor,
		Size: attr.Size, Blksize: attr.Blksize, Blocks: attr.Blocks,
		Atime: lisafs.StatxTimestamp{Sec: attr.Atime.Sec, Nsec: attr.Atime.Nsec},
		Mtime: lisafs.StatxTimestamp{Sec: attr.Mtime.Sec, Nsec: attr.Mtime.Nsec},
		Ctime: lisafs.StatxTimestamp{Sec: attr.Ctime.Sec, Nsec: attr.Ctime.Nsec},
	}
}
