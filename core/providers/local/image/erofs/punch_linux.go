package erofs

import (
	"os"

	"golang.org/x/sys/unix"
)

// punch frees the disk space of a part of a file, if the file system supports that.
func punch(f *os.File, at, size int64) {
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, size)
}
