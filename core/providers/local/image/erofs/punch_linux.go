package erofs

import (
	"os"

	"golang.org/x/sys/unix"
)

// punch gives the room of a part of a file back. A file system that cannot keeps it.
func punch(f *os.File, at, size int64) {
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, size)
}
