//go:build unix

package transfer

import (
	"io/fs"
	"syscall"
)

// inode identifies a file, whatever its name.
type inode struct{ dev, ino uint64 }

// inodeOf returns a file's inode, and whether the file has several names.
func inodeOf(info fs.FileInfo) (id inode, several bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Nlink < 2 {
		return inode{}, false
	}
	return inode{uint64(st.Dev), st.Ino}, true //nolint:unconvert // the type depends on the system
}

// ownerOf returns the user and the group of a file.
func ownerOf(info fs.FileInfo) (uid, gid int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}
