//go:build linux

package hostdir

import (
	"fmt"
	"path/filepath"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/lisafs"
	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/runsc/fsgofer/extension"
)

// parent is the name of the directory that contains the sources of all mounts of this package.
const parent = "volumes"

// Owner is the user and the group inside that own the files of the launching user. A file that another user inside made
// or owns has a record: see record.
type Owner struct{ UID, GID uint32 }

// Parent returns the directory of the mounts' sources, below a directory of the sandbox.
func Parent(dir string) string { return filepath.Join(dir, parent) }

// Source returns the path where the directory of mount number n is attached. The owner is in its name, because a gofer
// gets the spec and no other data.
func Source(dir string, n int, o Owner) string {
	return filepath.Join(Parent(dir), fmt.Sprintf("%d-%d-%d", n, o.UID, o.GID))
}

// ownerOf reads the owner in the name of a source.
func ownerOf(source string) (o Owner, ok bool) {
	if filepath.Base(filepath.Dir(source)) != parent {
		return o, false
	}
	var n int
	_, err := fmt.Sscanf(filepath.Base(source), "%d-%d-%d", &n, &o.UID, &o.GID)
	return o, err == nil
}

// Extension makes gVisor's gofer serve the mounts whose source has a name of Source.
type Extension struct {
	// FDs is the directory /proc/self/fd, open. The process has no /proc when it serves.
	FDs int
}

var _ extension.Extension = Extension{}

// Name implements extension.Extension.
func (Extension) Name() string { return "hostdir" }

// TryHandleMount implements extension.Extension.
func (e Extension) TryHandleMount(
	_ *specs.Spec, mount *specs.Mount, _ string, readonly bool,
) (lisafs.ConnectionImpl, lisafs.ConnectionOpts, error) {
	if mount == nil {
		return nil, lisafs.ConnectionOpts{}, nil
	}
	owner, ok := ownerOf(mount.Source)
	if !ok {
		return nil, lisafs.ConnectionOpts{}, nil
	}
	return &share{fds: e.FDs, owner: owner}, lisafs.ConnectionOpts{
		Readonly: readonly, WalkStatSupported: true, SetAttrOnDeleted: true, AllocateOnDeleted: true, OpenOnDeleted: true,
	}, nil
}

// SeccompRules implements extension.Extension.
func (Extension) SeccompRules() seccomp.SyscallRules {
	return seccomp.MakeSyscallRules(map[uintptr]seccomp.SyscallRule{unix.SYS_OPENAT2: seccomp.MatchAll{}})
}

// share is a mounted directory, and the connection of the sandbox's kernel to it.
type share struct {
	fds   int
	owner Owner
	root  int    // the directory, for lookups by path
	path  string // the directory's path here
}

var _ lisafs.ConnectionImpl = (*share)(nil)

// Mount implements lisafs.ConnectionImpl.
func (s *share) Mount(conn *lisafs.Connection, root *lisafs.Node) (*lisafs.ControlFD, lisafs.Statx, int, error) {
	s.path = root.FilePath()
	fd, err := unix.Open(s.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, lisafs.Statx{}, -1, err
	}
	s.root = fd
	own, err := unix.Dup(fd)
	if err != nil {
		return nil, lisafs.Statx{}, -1, err
	}
	attr, answer, err := s.stat(own)
	if err != nil {
		_ = unix.Close(own)
		return nil, lisafs.Statx{}, -1, err
	}
	root.IncRef() // for the node's descriptor
	f := &file{share: s, fd: own}
	f.Init(conn, root, linux.FileMode(attr.Mode), f) //nolint:gosec // a mode has 16 bits
	return f.FD(), answer, -1, nil
}

// MaxMessageSize implements lisafs.ConnectionImpl.
func (*share) MaxMessageSize() uint32 { return lisafs.MaxMessageSize() }

// SupportedMessages implements lisafs.ConnectionImpl. There are no sockets of the host.
func (*share) SupportedMessages() []lisafs.MID {
	return []lisafs.MID{
		lisafs.Mount, lisafs.Channel, lisafs.FStat, lisafs.SetStat, lisafs.Walk, lisafs.WalkStat, lisafs.OpenAt,
		lisafs.OpenCreateAt, lisafs.Close, lisafs.FSync, lisafs.PWrite, lisafs.PRead, lisafs.MkdirAt, lisafs.MknodAt,
		lisafs.SymlinkAt, lisafs.LinkAt, lisafs.FStatFS, lisafs.FAllocate, lisafs.ReadLinkAt, lisafs.Connect,
		lisafs.UnlinkAt, lisafs.RenameAt, lisafs.Getdents64, lisafs.FGetXattr, lisafs.FSetXattr, lisafs.FListXattr,
		lisafs.FRemoveXattr, lisafs.BindAt, lisafs.ConnectWithCreds, lisafs.RenameAt2,
	}
}
