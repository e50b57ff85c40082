//go:build linux

package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/providers/local/runtime/netstack"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// enterJail replaces this process's view of the machine's files. The process then sees only dirs, /proc, /dev/null and
// the files that list the machine's name servers. Only dirs and /dev/null are writable, and store.ClientDir in dirs is
// hidden. root must be an empty directory. The process must be in its own mount namespace. Open files stay open.
func enterJail(root string, dirs ...string) error {
	// The jail lacks the file of the time zone, and the first use reads it.
	_, _ = time.Now().Zone()
	if err := unix.Mount(
		"sb", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=0755",
	); err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}
	for _, dir := range dirs {
		if err := show(root, dir, false); err != nil {
			return err
		}
		if err := hide(filepath.Join(root, dir, store.ClientDir)); err != nil {
			return err
		}
	}
	if err := show(root, os.DevNull, false); err != nil {
		return err
	}
	// /proc is read-only, because root can write most of /proc/sys without capabilities.
	if err := show(root, "/proc", true); err != nil {
		return err
	}
	if err := showResolvers(root, netstack.ResolverFiles()); err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	// The old root is mounted over the new one and then unmounted: pivot_root(2).
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// hide mounts an empty directory over dir, if dir exists.
func hide(dir string) error {
	err := unix.Mount("sb", dir, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k,mode=0500")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hiding %s: %w", dir, err)
	}
	return nil
}

// show makes a file or directory of the machine visible at the same path below root. With readOnly it includes the
// mounts at and below path, because an ordinary user may not reveal files under a mount.
func show(root, path string, readOnly bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	target := filepath.Join(root, path)
	parent := target
	if !info.IsDir() {
		parent = filepath.Dir(target)
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	if !info.IsDir() {
		if err := os.WriteFile(target, nil, 0o600); err != nil {
			return err
		}
	}
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
	if readOnly {
		flags |= unix.AT_RECURSIVE
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, flags)
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer func() { _ = unix.Close(tree) }()
	if readOnly {
		set := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &set); err != nil {
			return fmt.Errorf("making %s read-only: %w", path, err)
		}
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("showing %s: %w", path, err)
	}
	return nil
}

// showResolvers shows the files that list the machine's name servers. It shows the whole directory of such a file, so
// that a replacement of the file is visible. For a directory of this user it shows only the file, because other files
// there may be private.
func showResolvers(root string, files []string) error {
	var shown []string
	for _, path := range files {
		file, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // an unreadable file lists no servers
		}
		visible := file
		if dir := filepath.Dir(file); !owned(dir) {
			visible = dir
		}
		if !slices.Contains(shown, visible) {
			if err := show(root, visible, true); err != nil {
				return err
			}
			shown = append(shown, visible)
		}
		if file == path {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(file, filepath.Join(root, path)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// owned reports whether this process's user owns a file.
func owned(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
