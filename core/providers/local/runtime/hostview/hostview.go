//go:build linux

package hostview

import (
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

// TryHandleMount implements extension.Extension. gVisor's own server serves volumes.
func (e Extension) TryHandleMount(
	_ *specs.Spec, mount *specs.Mount, mountPath string, readonly bool,
) (lisafs.ConnectionImpl, lisafs.ConnectionOpts, error) {
	if mount != nil || mountPath != "/" || !readonly {
		return nil, lisafs.ConnectionOpts{}, nil
	}
	return &connection{named: e.Mounts}, lisafs.ConnectionOpts{
		Readonly: true, WalkStatSupported: true, OpenOnDeleted: true,
	}, nil
}

// SeccompRules implements extension.Extension.
func (Extension) SeccompRules() seccomp.SyscallRules {
	return seccomp.MakeSyscallRules(map[uintptr]seccomp.SyscallRule{unix.SYS_STATX: seccomp.MatchAll{}})
}

// connection is a connection of the sandbox's kernel to this view.
type connection struct{ named []string }

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
	root.IncRef() // for the node's descriptor
	f := &file{view: &view{skeleton: attr.Mnt_id, named: c.named}, fd: fd, attr: attr}
	f.Init(conn, root, mode(attr), f)
	return f.FD(), answer(attr), -1, nil
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
