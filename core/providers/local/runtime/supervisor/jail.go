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

// enterJail replaces what this process sees of the machine's files: dirs, which it may write in, /proc, /dev/null and
// the files that name the machine's name servers. In dirs it does not see store.ClientDir. All but dirs and /dev/null
// is read-only. root is an empty directory; the process is in a mount namespace of its own. Open files stay open.
func enterJail(root string, dirs ...string) error {
	// The time zone is read at its first use, from a file that the jail lacks.
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
	// Most of /proc/sys is writable for root without any capability.
	if err := show(root, "/proc", true); err != nil {
		return err
	}
	if err := showResolvers(root, netstack.ResolverFiles()); err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	// The old root is mounted over the new one, and then removed from there: pivot_root(2).
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

// hide covers a directory, if it is there, with an empty one.
func hide(dir string) error {
	err := unix.Mount("sb", dir, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k,mode=0500")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hiding %s: %w", dir, err)
	}
	return nil
}

// show makes a file or directory of the machine visible at the same path below root. A read-only one comes with the
// file systems that are mounted on it and below it: an ordinary user may not uncover what they hide.
func show(root, path string, readOnly bool) error {
	info, err := os.Stat(path) //nolint:gosec // the client names the paths
	if err != nil {
		return err
	}
	target := filepath.Join(root, path)
	parent := target
	if !info.IsDir() {
		parent = filepath.Dir(target)
	}
	if err := os.MkdirAll(parent, 0o755); err != nil { //nolint:gosec // the client names the paths
		return err
	}
	if !info.IsDir() {
		if err := os.WriteFile(target, nil, 0o600); err != nil { //nolint:gosec // the client names the paths
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

// showResolvers shows the files that name the machine's name servers. The directory of such a file is shown, so that a
// file that replaces it is seen; but not a directory of this user, which may have files that other users may not read.
func showResolvers(root string, files []string) error {
	var shown []string
	for _, path := range files {
		file, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // a file that cannot be read names no servers
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
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil { //nolint:gosec // a constant
			return err
		}
		if err := os.Symlink(file, filepath.Join(root, path)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// owned says whether a file is of this process's user.
func owned(path string) bool {
	info, err := os.Stat(path) //nolint:gosec // the client names the paths
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
