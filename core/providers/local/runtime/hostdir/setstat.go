//go:build linux

package hostdir

import (
	"errors"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/fsutil"
	"gvisor.dev/gvisor/pkg/lisafs"
)

const (
	owners = unix.STATX_UID | unix.STATX_GID
	times  = unix.STATX_ATIME | unix.STATX_MTIME
)

// SetStat implements lisafs.ControlFDImpl.
func (f *file) SetStat(req lisafs.SetStatReq) (failed uint32, err error) {
	for _, part := range []struct {
		mask uint32
		set  func(lisafs.SetStatReq) error
	}{
		{unix.STATX_SIZE, f.setSize}, {owners, f.setOwner}, {unix.STATX_MODE, f.setMode}, {times, f.setTimes},
	} {
		if req.Mask&part.mask == 0 {
			continue
		}
		if e := part.set(req); e != nil {
			failed |= req.Mask & part.mask
			err = e
		}
	}
	return failed, err
}

func (f *file) setSize(req lisafs.SetStatReq) error {
	if !f.IsRegular() {
		return unix.EINVAL
	}
	fd, err := f.share.reopen(f.fd, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Ftruncate(fd, int64(req.Size)) //nolint:gosec // the kernel refuses what is negative
}

// setMode keeps the setgid bit that a directory has on the host. It decides the group of new files there.
func (f *file) setMode(req lisafs.SetStatReq) error {
	if f.IsSymlink() {
		return unix.EOPNOTSUPP
	}
	if !f.plainFile() {
		return unix.EPERM
	}
	var attr unix.Stat_t
	if err := unix.Fstat(f.fd, &attr); err != nil {
		return err
	}
	r := f.share.recordOf(f.fd, attr)
	mode := req.Mode & (0o777 | unix.S_ISVTX)
	if f.IsDir() {
		mode |= attr.Mode & unix.S_ISGID
	}
	if err := unix.Fchmod(f.fd, mode); err != nil {
		return err
	}
	r.bits = req.Mode & setIDs
	err := f.share.keep(f.fd, r)
	if errors.Is(err, unix.EOPNOTSUPP) && r.bits == 0 {
		return nil
	}
	return err
}

// setOwner changes the owner inside. The owner of a link is not stored.
func (f *file) setOwner(req lisafs.SetStatReq) error {
	if f.IsSymlink() {
		return nil
	}
	if !f.plainFile() {
		return unix.EPERM
	}
	var attr unix.Stat_t
	if err := unix.Fstat(f.fd, &attr); err != nil {
		return err
	}
	r := f.share.recordOf(f.fd, attr)
	if req.Mask&unix.STATX_UID != 0 {
		r.uid = uint32(req.UID)
	}
	if req.Mask&unix.STATX_GID != 0 {
		r.gid = uint32(req.GID)
	}
	err := f.share.keep(f.fd, r)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return unix.EPERM // as chown(2) on a file system without owners
	}
	return err
}

func (f *file) setTimes(req lisafs.SetStatReq) error {
	set := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
	if req.Mask&unix.STATX_ATIME != 0 {
		set[0] = unix.Timespec{Sec: req.Atime.Sec, Nsec: req.Atime.Nsec}
	}
	if req.Mask&unix.STATX_MTIME != 0 {
		set[1] = unix.Timespec{Sec: req.Mtime.Sec, Nsec: req.Mtime.Nsec}
	}
	if f.plainFile() {
		return fsutil.Utimensat(f.fd, "", set, 0)
	}
	dir, name, err := f.parent()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	return fsutil.Utimensat(dir, name, set, unix.AT_SYMLINK_NOFOLLOW)
}
