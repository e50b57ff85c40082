package origin

import (
	"io/fs"
	"syscall"
)

// inode returns when a file's inode changed, in nanoseconds since 1970, and its number.
func inode(info fs.FileInfo) (changed int64, number uint64) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return st.Ctim.Nano(), st.Ino
}
