//go:build linux

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/providers/local/runtime/hostview"
)

// copied returns the targets of the volumes that are copied on write.
func (c Config) copied() []string {
	var targets []string
	for _, v := range c.Volumes {
		if v.CopyOnWrite {
			targets = append(targets, path.Clean(v.Target))
		}
	}
	return targets
}

// showCopied mounts the volumes that are copied on write in the view at dir, read-only. gVisor's writable layer is
// above the whole view, so it also has the sandbox's writes to them. They are saved, copied and limited with the rest.
func (c Config) showCopied(dir string) error {
	for _, v := range c.Volumes {
		if !v.CopyOnWrite {
			continue
		}
		if err := mountCopied(dir, v); err != nil {
			return fmt.Errorf("mounting %s at %s: %w", v.Source, v.Target, err)
		}
	}
	return nil
}

// showCopiedInImage mounts the volumes that are copied on write, and the image, in the view of an image at dir.
func (c Config) showCopiedInImage(dir string) error {
	targets := c.copied()
	if len(targets) == 0 {
		return nil
	}
	image := filepath.Join(dir, hostview.ImageFile)
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := bindReadOnly(c.RootImage, image); err != nil {
		return err
	}
	i := 0
	for _, v := range c.Volumes {
		if !v.CopyOnWrite {
			continue
		}
		at := v
		at.Target = "/" + hostview.MountDir(i)
		if err := mountCopied(dir, at); err != nil {
			return fmt.Errorf("mounting %s at %s: %w", v.Source, v.Target, err)
		}
		i++
	}
	return nil
}

// checkCopied returns an error if a volume that is copied on write would be below a file or a link of the image. Root
// inside could replace a link.
func (c Config) checkCopied(image lower) error {
	for _, target := range c.copied() {
		for name := target; name != "/"; name = path.Dir(name) {
			info, err := image.Lstat(name)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
				continue
			}
			if err != nil {
				return err
			}
			if !info.IsDir() {
				return fmt.Errorf("mounting at %s: the image's %s is not a directory", target, name)
			}
		}
	}
	return nil
}

// withCopied is an image with the volumes that are copied on write.
type withCopied struct {
	image   lower
	targets []string
	view    hostLower
}

// find returns the volume that a file is in, and its name there.
func (l withCopied) find(name string) (lower, string) {
	for i, target := range l.targets {
		if rest, inside := strings.CutPrefix(name+"/", target+"/"); inside {
			return l.view, path.Join("/", hostview.MountDir(i), rest)
		}
	}
	return l.image, name
}

// Lstat implements lower. The gofer shows a directory that only leads to a volume like the directory of the mounts.
func (l withCopied) Lstat(name string) (fs.FileInfo, error) {
	at, inside := l.find(name)
	info, err := at.Lstat(inside)
	if errors.Is(err, fs.ErrNotExist) &&
		slices.ContainsFunc(l.targets, func(target string) bool { return strings.HasPrefix(target, name+"/") }) {
		return l.view.Lstat(path.Dir("/" + hostview.MountDir(0)))
	}
	return info, err
}

// ReadDir implements lower.
func (l withCopied) ReadDir(name string) ([]fs.DirEntry, error) {
	at, name := l.find(name)
	return at.ReadDir(name)
}

func mountCopied(dir string, v Volume) error {
	source, err := v.open()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(source) }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	inside := path.Clean(v.Target)[1:]
	if err := root.MkdirAll(inside, 0o755); err != nil {
		return fmt.Errorf("making the mount point: %w", err)
	}
	target, err := unix.Openat2(unix.AT_FDCWD, path.Join(dir, inside), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if errors.Is(err, unix.ELOOP) {
		return errors.New("the path in the sandbox leads through a symbolic link")
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(target) }()
	return attachReadOnly(source, target)
}

// attachReadOnly clones the mounts below the directory source, makes all of them read-only, and then attaches them at
// the directory target. Both are descriptors.
func attachReadOnly(source, target int) error {
	const clone = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE | unix.AT_EMPTY_PATH
	tree, err := unix.OpenTree(source, "", clone)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(tree) }()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("making it read-only: %w", err)
	}
	return unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}
