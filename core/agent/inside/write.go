//go:build linux

package inside

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/internal/sparse"
)

const (
	defaultFileMode = 0o644
	defaultDirMode  = 0o755
)

// tempName returns a name that no other file has. It is short, since the
// directory's longest name may be near the limit already.
func tempName() string { return ".sb-" + rand.Text() }

// write replaces or creates the file at path with the framed body. A symbolic link is
// followed, the way a program that writes would; a hard link is broken.
func (f *files) write(path string, r guest.Request) error {
	if r.Parents {
		if err := os.MkdirAll(filepath.Dir(path), defaultDirMode); err != nil {
			return err
		}
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	} else if info, lerr := os.Lstat(path); lerr == nil && info.Mode()&fs.ModeSymlink != 0 {
		return err // it dangles or loops, so the target is unknown
	}
	mode := fs.FileMode(r.Mode) & (fs.ModePerm | 0o7000)
	old, err := os.Stat(path)
	switch {
	case err == nil && old.IsDir():
		return &fs.PathError{Op: "write", Path: path, Err: unix.EISDIR}
	case err == nil && !old.Mode().IsRegular():
		return core.Errorf(core.KindConflict, "", path, "not a regular file")
	case err == nil:
		// The rename below needs only rights to the directory. This check keeps a read-only file unchanged.
		if err := unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if r.Append {
		return f.appendTo(path, mode)
	}
	if mode == 0 {
		mode = defaultFileMode
		if old != nil {
			mode = permissions(old)
		}
	}
	return f.replace(path, mode, old)
}

// permissions returns the mode bits as chmod(2) takes them.
func permissions(info fs.FileInfo) fs.FileMode {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fs.FileMode(st.Mode & 0o7777)
	}
	return info.Mode().Perm()
}

func (f *files) appendTo(path string, mode fs.FileMode) error {
	create := mode
	if create == 0 {
		create = defaultFileMode
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, uint32(create))
	if err != nil {
		return err
	}
	_, err = copyAll(fdFile(fd), guest.NewBodyReader(f.in))
	if err == nil && mode != 0 {
		err = unix.Fchmod(fd, uint32(mode))
	}
	return errors.Join(err, unix.Close(fd))
}

func (f *files) replace(path string, mode fs.FileMode, old fs.FileInfo) (err error) {
	temp := filepath.Join(filepath.Dir(path), tempName())
	fd, err := unix.Open(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, uint32(mode))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = unix.Unlink(temp)
		}
	}()
	holes := sparse.NewWriter(fdFile(fd))
	_, err = copyAll(holes, guest.NewBodyReader(f.in))
	if err == nil {
		err = holes.Finish()
	}
	if err == nil && old != nil {
		if st, ok := old.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid()) {
			// Without the right to give files away the new content belongs to the writer.
			_ = unix.Fchown(fd, int(st.Uid), int(st.Gid))
			err = unix.Fchmod(fd, uint32(mode))
		}
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return err
	}
	if old == nil {
		return unix.Rename(temp, path)
	}
	var r replacer
	return r.replace(unix.AT_FDCWD, temp, path)
}

// fdFile is a regular file without the runtime's poller. It implements sparse.File.
type fdFile int

// Write implements io.Writer.
func (w fdFile) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n, err := unix.Write(int(w), p[written:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

// Seek implements io.Seeker.
func (w fdFile) Seek(offset int64, whence int) (int64, error) {
	return unix.Seek(int(w), offset, whence)
}

// Truncate implements sparse.File.
func (w fdFile) Truncate(size int64) error { return unix.Ftruncate(int(w), size) }
