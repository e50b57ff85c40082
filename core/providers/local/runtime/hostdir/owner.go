//go:build linux

package hostdir

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/lisafs"
)

// The attributes of this package begin with hidden. The sandbox can neither see nor set them.
const (
	hidden    = "user.sb."
	attribute = hidden + "owner"
)

// setIDs are the bits of a mode that the host's files never get from a sandbox.
const setIDs = unix.S_ISUID | unix.S_ISGID

// record is what a file has inside and not on the host: its owner, and the bits setIDs of its mode. It is stored in an
// extended attribute, so that all sandboxes see it. A file without one belongs to the share's Owner if the launching
// user owns it, else to its owner on the host.
type record struct {
	uid, gid, bits uint32
}

const recordFormat = "%d:%d:%o"

// recordOf returns a file's record, or the values of a file without one. Symbolic links and special files have none:
// Linux stores no such attributes on them.
func (s *share) recordOf(fd int, attr unix.Stat_t) record {
	var value [64]byte
	if kind := attr.Mode & unix.S_IFMT; kind == unix.S_IFREG || kind == unix.S_IFDIR {
		if n, err := unix.Fgetxattr(fd, attribute, value[:]); err == nil {
			var r record
			_, err := fmt.Sscanf(string(value[:n]), recordFormat, &r.uid, &r.gid, &r.bits)
			if err == nil && r.bits&^setIDs == 0 {
				return r
			}
		}
	}
	return s.plain(attr)
}

// plain returns the values of a file without a record. The launching user is user 0 here, in a user namespace, too.
func (s *share) plain(attr unix.Stat_t) record {
	r := record{attr.Uid, attr.Gid, attr.Mode & setIDs}
	if r.uid == 0 {
		r.uid = s.owner.UID
	}
	if r.gid == 0 {
		r.gid = s.owner.GID
	}
	return r
}

// keep stores a file's record. EOPNOTSUPP: the file system has no extended attributes.
func (s *share) keep(fd int, r record) error {
	var attr unix.Stat_t
	if err := unix.Fstat(fd, &attr); err != nil {
		return err
	}
	if r == s.plain(attr) {
		err := unix.Fremovexattr(fd, attribute)
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		return err
	}
	return unix.Fsetxattr(fd, attribute, fmt.Appendf(nil, recordFormat, r.uid, r.gid, r.bits), 0)
}

// made stores the record of a new file. A file system without extended attributes shows it as the share's Owner's.
func (s *share) made(fd int, uid lisafs.UID, gid lisafs.GID, mode uint32) error {
	r := record{s.owner.UID, s.owner.GID, mode & setIDs}
	if uid.Ok() {
		r.uid = uint32(uid)
	}
	if gid.Ok() {
		r.gid = uint32(gid)
	}
	err := s.keep(fd, r)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// visible reports whether the sandbox may use an extended attribute. Others could give a file rights on the host.
func visible(name string) bool {
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, hidden)
}

// stat returns the attributes of an open file: those on the host, and those inside.
func (s *share) stat(fd int) (attr unix.Stat_t, inside lisafs.Statx, err error) {
	if err := unix.Fstat(fd, &attr); err != nil {
		return attr, inside, err
	}
	r := s.recordOf(fd, attr)
	//nolint:gosec,unconvert // a mode has 16 bits; the fields' types differ by processor
	inside = lisafs.Statx{
		Mask: unix.STATX_BASIC_STATS, Mode: uint16(attr.Mode&^setIDs | r.bits), UID: r.uid,
		GID: r.gid, Ino: attr.Ino, Nlink: uint32(attr.Nlink),
		DevMajor: unix.Major(uint64(attr.Dev)), DevMinor: unix.Minor(uint64(attr.Dev)),
		RdevMajor: unix.Major(uint64(attr.Rdev)), RdevMinor: unix.Minor(uint64(attr.Rdev)),
		Size: uint64(attr.Size), Blksize: uint32(attr.Blksize), Blocks: uint64(attr.Blocks),
		Atime: lisafs.StatxTimestamp{Sec: attr.Atim.Sec, Nsec: uint32(attr.Atim.Nsec)},
		Mtime: lisafs.StatxTimestamp{Sec: attr.Mtim.Sec, Nsec: uint32(attr.Mtim.Nsec)},
		Ctime: lisafs.StatxTimestamp{Sec: attr.Ctim.Sec, Nsec: uint32(attr.Ctim.Nsec)},
	}
	return attr, inside, nil
}
