//go:build linux

package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/providers/local/runtime/hostdir"
)

// Volume shows a host directory inside. Each side sees the writes of the other.
type Volume struct {
	// Source is an absolute path without links.
	Source, Target string
	ReadOnly       bool
	// CopyOnWrite makes Source part of the files below the writable layer. Source and Target hold no links. What the
	// sandbox writes there is in the writable layer, as any other file of its root. A change of Source after the start may
	// be visible inside or not.
	CopyOnWrite bool
	// Device and Inode identify the directory that the client checked. Both are 0 if it checked none.
	Device, Inode uint64
	// Owner is the user inside who owns the launching user's files.
	Owner hostdir.Owner
}

// ErrReplaced means that the source of a volume is not the directory that the client checked.
var ErrReplaced = errors.New("it was replaced while the sandbox started")

// open opens the volume's directory. It follows no link, and accepts only the directory that the client checked.
func (v Volume) open() (fd int, err error) {
	fd, err = unix.Openat2(unix.AT_FDCWD, v.Source, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENOENT):
		return -1, fmt.Errorf("volume %s: %w: %w", v.Source, ErrReplaced, err)
	case err != nil:
		return -1, fmt.Errorf("volume %s: %w", v.Source, err)
	}
	var attr unix.Stat_t
	if err := unix.Fstat(fd, &attr); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("volume %s: %w", v.Source, err)
	}
	if checked := v.Device != 0 || v.Inode != 0; checked && (attr.Dev != v.Device || attr.Ino != v.Inode) {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("volume %s: %w", v.Source, ErrReplaced)
	}
	return fd, nil
}

// attachVolumes mounts the volumes where the gofer finds them. The mounts are in a file system of this process's mount
// namespace, so no other process can replace them. detachVolumes must follow before Dir is emptied.
func (c Config) attachVolumes() error {
	if len(c.Volumes) == 0 {
		return nil
	}
	parent := hostdir.Parent(c.Dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("sb", parent, "tmpfs", flags, "size=64k,mode=0700"); err != nil {
		return fmt.Errorf("mounting a place for the volumes: %w", err)
	}
	for n, v := range c.Volumes {
		if v.CopyOnWrite {
			continue // showCopied mounts it
		}
		if err := v.attach(hostdir.Source(c.Dir, n, v.Owner)); err != nil {
			return err
		}
	}
	return nil
}

func (v Volume) attach(target string) error {
	fd, err := v.open()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	// The mounts below it belong to it. In a user namespace, a copy without them is not allowed.
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH | unix.AT_RECURSIVE
	tree, err := unix.OpenTree(fd, "", flags)
	if err != nil {
		return fmt.Errorf("volume %s: opening it: %w", v.Source, err)
	}
	defer func() { _ = unix.Close(tree) }()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if v.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("volume %s: restricting it: %w", v.Source, err)
	}
	if err := os.Mkdir(target, 0o700); err != nil {
		return err
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("volume %s: attaching it: %w", v.Source, err)
	}
	return nil
}

// detachVolumes removes the mounts of attachVolumes. The gofer has its own.
func (c Config) detachVolumes() error {
	if len(c.Volumes) == 0 {
		return nil
	}
	err := unix.Unmount(hostdir.Parent(c.Dir), unix.MNT_DETACH)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		err = nil // it is not mounted
	}
	if err != nil {
		return fmt.Errorf("unmounting the volumes: %w", err)
	}
	// Remove fails if there still is a mount.
	if err := os.Remove(hostdir.Parent(c.Dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// volumeMounts are the mounts of the volumes in the sandbox.
func (c Config) volumeMounts() []specs.Mount {
	mounts := make([]specs.Mount, 0, len(c.Volumes))
	for n, v := range c.Volumes {
		if v.CopyOnWrite {
			continue // it is part of the root
		}
		mode := "rw"
		if v.ReadOnly {
			mode = "ro"
		}
		mounts = append(mounts, specs.Mount{
			Destination: filepath.Clean(v.Target), Type: "bind", Source: hostdir.Source(c.Dir, n, v.Owner),
			Options: []string{"rbind", mode, "nosuid", "nodev"},
		})
	}
	return mounts
}
