//go:build linux

package inside

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// remove removes a file or an empty directory, or with recursive a whole tree, until ctx ends. If there is a mount at
// or below name, it removes nothing.
func remove(ctx context.Context, name string, recursive bool) error {
	if name == "/" {
		return core.Errorf(core.KindUsage, "", name, "the root directory cannot be removed")
	}
	if !recursive {
		return os.Remove(name)
	}
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return os.Remove(name)
	}
	if err := checkMounts(name); err != nil {
		return err
	}
	parent, err := openDir(unix.AT_FDCWD, path.Dir(name))
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	var st unix.Stat_t
	if err := unix.Fstatat(parent, path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	r := remover{ctx: ctx, device: st.Dev}
	return r.tree(parent, path.Base(name), name)
}

// checkMounts returns an error for a directory with a mount at or below it.
func checkMounts(name string) error {
	above, err := filepath.EvalSymlinks(path.Dir(name))
	if err != nil {
		return err
	}
	whole := path.Join(above, path.Base(name))
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil //nolint:nilerr // the remover sees most mounts by their device
	}
	defer func() { _ = f.Close() }()
	mounts, err := mountPoints(f)
	if err != nil {
		return err
	}
	for _, mount := range mounts {
		if mount == whole || strings.HasPrefix(mount, whole+"/") {
			return mounted(mount)
		}
	}
	return nil
}

func mounted(name string) error {
	return core.Errorf(
		core.KindConflict, "", name, "a file system is mounted there, and mounts are not removed",
	)
}

// mountPoints reads proc(5)'s mountinfo: the fifth field is the mount point, where \ooo stands for a byte.
func mountPoints(r io.Reader) ([]string, error) {
	var list []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		var name strings.Builder
		for rest := fields[4]; rest != ""; {
			if rest[0] == '\\' && len(rest) >= 4 {
				if c, err := strconv.ParseUint(rest[1:4], 8, 8); err == nil {
					name.WriteByte(byte(c))
					rest = rest[4:]
					continue
				}
			}
			name.WriteByte(rest[0])
			rest = rest[1:]
		}
		list = append(list, name.String())
	}
	return list, lines.Err()
}

// remover removes trees on one file system.
type remover struct {
	ctx    context.Context //nolint:containedctx // one lives for one tree
	device uint64
}

// batch is how many names of a directory are read at once.
const batch = 1024

// tree removes the directory called base in the directory parent. name is its path.
func (r *remover) tree(parent int, base, name string) error {
	if err := r.empty(parent, base, name); err != nil {
		return err
	}
	if err := unix.Unlinkat(parent, base, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

// empty removes all that is in a directory.
func (r *remover) empty(parent int, base, name string) (err error) {
	fd, err := unix.Openat(parent, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	dir := os.NewFile(uintptr(fd), name)
	defer func() { err = errors.Join(err, dir.Close()) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	if st.Dev != r.device {
		return mounted(name)
	}
	for {
		names, err := dir.Readdirnames(batch)
		removed := 0
		for _, entry := range names {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			if err := r.entry(fd, entry, path.Join(name, entry)); err != nil {
				return err
			}
			removed++
		}
		if errors.Is(err, io.EOF) && removed == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		// Some file systems lose their place in a directory that shrinks.
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

func (r *remover) entry(dir int, base, name string) error {
	switch err := unix.Unlinkat(dir, base, 0); err {
	case nil, unix.ENOENT:
		return nil
	case unix.EISDIR, unix.EPERM: // EPERM means a directory in POSIX
	default:
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	var st unix.Stat_t
	switch err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
		return nil
	case err != nil:
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return &fs.PathError{Op: "remove", Path: name, Err: unix.EPERM}
	}
	return r.tree(dir, base, name)
}
