//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// checkVolumes checks the volumes of a spec. It creates nothing.
func (p *Provider) checkVolumes(spec core.Spec) error {
	for _, v := range spec.Volumes {
		if err := checkTarget(v.Target); err != nil {
			return err
		}
		if !v.IsPath() {
			if err := p.checkVolumeName(v.Source); err != nil {
				return err
			}
			continue
		}
		dir, _, err := p.openDir(v.Source)
		if err != nil {
			return err
		}
		_ = dir.Close()
	}
	return nil
}

// checkTarget refuses the directories of the sandbox's kernel.
func checkTarget(target string) error {
	clean := filepath.Clean(target)
	if clean == "/" || slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool {
		return below(clean, dir)
	}) {
		return core.Errorf(core.KindUsage, "local.launch", target, "nothing can be mounted there")
	}
	return nil
}

// below reports whether a clean path is dir or is in it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func (p *Provider) checkVolumeName(name string) error {
	if p.opts.HostOnly {
		return core.Errorf(core.KindUnsupported, "local.launch", name, "volumes with names are not there")
	}
	return core.ValidateName("volume", name)
}

// openDir opens a host directory. It resolves links first and follows none after that, so the directory that the caller
// checks is the one that is open. It refuses directories that no sandbox may see.
func (p *Provider) openDir(source string) (dir *os.File, path string, err error) {
	refused := func(kind core.Kind, format string, args ...any) (*os.File, string, error) {
		return nil, "", core.Errorf(kind, "local.launch", source, format, args...)
	}
	path, err = filepath.EvalSymlinks(source)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return refused(core.KindUsage, "the directory cannot be mounted: %w", err)
	}
	if hidden, err := p.hides(path); err != nil || hidden {
		return refused(core.KindUnauthorized, "sb's own files are there, and no sandbox may see them")
	}
	if p.opts.HostDirs != nil && !slices.ContainsFunc(p.opts.HostDirs, func(allowed string) bool {
		allowed, err := filepath.EvalSymlinks(allowed)
		return err == nil && below(path, allowed)
	}) {
		return refused(core.KindUnauthorized, "this directory may not be shown in a sandbox")
	}
	dir, err = openNoLinks(path)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return refused(core.KindUsage, "it is not a directory")
	case errors.Is(err, unix.ELOOP):
		return refused(core.KindUnauthorized, "it was replaced by a link meanwhile")
	case err != nil:
		return refused(core.KindUsage, "the directory cannot be mounted: %w", err)
	}
	return dir, path, nil
}

// openNoLinks opens a directory by a path without links.
func openNoLinks(path string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// hides reports whether a directory is, contains or is in a directory of sb's own files. With HostDirs, the directories
// in it that are listed there are no such files.
func (p *Provider) hides(path string) (bool, error) {
	if p.opts.HostDirs != nil {
		return false, nil
	}
	for _, own := range []string{p.opts.StateDir, p.opts.CacheDir} {
		resolved, err := filepath.EvalSymlinks(own)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return true, err
		}
		if below(path, resolved) || below(resolved, path) {
			return true, nil
		}
	}
	return false, nil
}

// openMounts opens the directories of a sandbox's volumes, and creates missing volumes. The sandbox's lease must exist:
// RemoveVolume looks for it. The caller closes the directories when the supervisor has mounted them.
func (p *Provider) openMounts(spec core.Spec) (mounts []socket.Mount, dirs []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(dirs)
		}
	}()
	for _, v := range spec.Volumes {
		var dir *os.File
		var path string
		if v.IsPath() {
			dir, path, err = p.openDir(v.Source)
		} else {
			dir, path, err = p.openVolume(v.Source)
		}
		if err != nil {
			return nil, dirs, err
		}
		dirs = append(dirs, dir)
		var attr unix.Stat_t
		if err := unix.Fstat(int(dir.Fd()), &attr); err != nil {
			return nil, dirs, stateError("launch", err)
		}
		mounts = append(mounts, socket.Mount{
			Source: path, Target: v.Target, ReadOnly: v.ReadOnly, CopyOnWrite: v.CopyOnWrite,
			Device: attr.Dev, Inode: attr.Ino, Named: !v.IsPath(),
		})
	}
	return mounts, dirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// openVolume opens the directory of a volume. It creates a missing volume.
func (p *Provider) openVolume(name string) (dir *os.File, path string, err error) {
	if err := p.checkVolumeName(name); err != nil {
		return nil, "", err
	}
	err = p.store.WithVolumes(func() error {
		entry, err := p.store.Volumes().Read(name, nil)
		if errors.Is(err, os.ErrNotExist) {
			_, err = p.makeVolume(name, nil)
		}
		if err != nil {
			return err
		}
		if path, err = filepath.EvalSymlinks(entry); err != nil {
			return err
		}
		path = filepath.Join(path, store.VolumeData)
		dir, err = openNoLinks(path)
		return err
	})
	if store.IsDamage(err) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		err = core.Errorf(core.KindConflict, "local.volume", name, "the volume cannot be used: %w", err).
			WithHint("see its files in %s, or remove it: sb volume rm %s", p.store.VolumeDir(name), name)
	}
	return dir, path, stateError("volume", err)
}

// mountedBy returns the names of the sandboxes that use a volume, now or after their next start. Damaged leases are
// left out.
func (p *Provider) mountedBy(name string) ([]string, error) {
	ids, err := p.store.IDs()
	if err != nil {
		return nil, err
	}
	var users []string
	for _, id := range ids {
		sb, err := p.read(id)
		if err != nil || !running(sb.State) && !sb.Spec.Persist {
			continue
		}
		if slices.ContainsFunc(sb.Spec.Volumes, func(v core.Volume) bool { return !v.IsPath() && v.Source == name }) {
			users = append(users, sb.Name)
		}
	}
	return users, nil
}

func noVolume(name string) error {
	return core.Errorf(core.KindNotFound, "local.volume", name, "there is no volume %q", name).
		WithHint("sb volume ls lists them")
}

// volumeUsers names the sandboxes in an error.
func volumeUsers(names []string) string {
	if len(names) == 1 {
		return "sandbox " + names[0]
	}
	return fmt.Sprintf("each of %d sandboxes, such as %s,", len(names), names[0])
}
