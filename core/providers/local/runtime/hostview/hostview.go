//go:build linux

package hostview

import (
	"encoding/json"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/lisafs"
	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/runsc/fsgofer/extension"
)

// Extension makes gVisor's gofer serve the root of a sandbox with this package. Mounts are paths in the sandbox. Mounts
// of the host at these paths are shown, although they are below a shown directory.
type Extension struct{ Mounts []string }

var _ extension.Extension = Extension{}

// Name implements extension.Extension.
func (Extension) Name() string { return "hostview" }

const (
	// ownAnnotation holds the targets of Annotations, as JSON.
	ownAnnotation = "dev.sb.own"
	// imageAnnotation is set if the view is an image.
	imageAnnotation = "dev.sb.image"
)

// Annotations tell the gofer, in the sandbox's spec, which paths of the view are mounts that the launching user chose
// to show: every file there that the user can read. With image the rest of the view is the image at ImageFile, and the
// mounts are at MountDir. The map can be written to.
func Annotations(own []string, image bool) map[string]string {
	text, _ := json.Marshal(own) // strings can be written
	annotations := map[string]string{ownAnnotation: string(text)}
	if image {
		annotations[imageAnnotation] = "true"
	}
	return annotations
}

// TryHandleMount implements extension.Extension. gVisor's own server serves volumes.
func (e Extension) TryHandleMount(
	spec *specs.Spec, mount *specs.Mount, mountPath string, readonly bool,
) (lisafs.ConnectionImpl, lisafs.ConnectionOpts, error) {
	if mount != nil || mountPath != "/" || !readonly {
		return nil, lisafs.ConnectionOpts{}, nil
	}
	c := &connection{named: e.Mounts}
	if text := spec.Annotations[ownAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &c.own); err != nil {
			return nil, lisafs.ConnectionOpts{}, err
		}
	}
	if spec.Annotations[imageAnnotation] != "" {
		return &imageConnection{*c}, lisafs.ConnectionOpts{Readonly: true, OpenOnDeleted: true}, nil
	}
	return c, lisafs.ConnectionOpts{
		Readonly: true, WalkStatSupported: true, OpenOnDeleted: true,
	}, nil
}

// SeccompRules implements extension.Extension.
func (Extension) SeccompRules() seccomp.SyscallRules {
	return seccomp.MakeSyscallRules(map[uintptr]seccomp.SyscallRule{unix.SYS_STATX: seccomp.MatchAll{}})
}

// connection is a connection of the sandbox's kernel to this view.
type connection struct{ named, own []string }

var _ lisafs.ConnectionImpl = (*connection)(nil)

// Mount implements lisafs.ConnectionImpl.
func (c *connection) Mount(conn *lisafs.Connection, root *lisafs.Node) (*lisafs.ControlFD, lisafs.Statx, int, error) {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, lisafs.Statx{}, -1, err
	}
	attr, err := stat(fd, "")
	if err != nil {
		_ = unix.Close(fd)
		return nil, lisafs.Statx{}, -1, err
	}
	own, err := mounts(c.own)
	if err != nil {
		_ = unix.Close(fd)
		return nil, lisafs.Statx{}, -1, err
	}
	root.IncRef() // for the node's descriptor
	f := &file{view: &view{skeleton: attr.Mnt_id, named: c.named, own: own}, fd: fd, attr: attr}
	f.Init(conn, root, mode(attr), f)
	return f.FD(), answer(attr), -1, nil
}

// mounts returns the mounts at paths, which hold no links.
func mounts(paths []string) (map[uint64]bool, error) {
	ids := map[uint64]bool{}
	for _, name := range paths {
		fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		attr, err := stat(fd, "")
		_ = unix.Close(fd)
		if err != nil {
			return nil, err
		}
		ids[attr.Mnt_id] = true
	}
	return ids, nil
}

// MaxMessageSize implements lisafs.ConnectionImpl.
func (*connection) MaxMessageSize() uint32 { return lisafs.MaxMessageSize() }

// SupportedMessages implements lisafs.ConnectionImpl. No message writes.
func (*connection) SupportedMessages() []lisafs.MID {
	return []lisafs.MID{
		lisafs.Mount, lisafs.Channel, lisafs.FStat, lisafs.Walk, lisafs.WalkStat, lisafs.OpenAt, lisafs.Close, lisafs.FSync,
		lisafs.PRead, lisafs.FStatFS, lisafs.ReadLinkAt, lisafs.Getdents64, lisafs.FGetXattr, lisafs.FListXattr,
	}
}
