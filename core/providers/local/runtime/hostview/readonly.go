//go:build linux

package hostview

import (
	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/lisafs"
)

// readOnly is the part of lisafs.ControlFDImpl that writes or connects. All its methods return errors.
type readOnly struct{}

func (readOnly) SetStat(req lisafs.SetStatReq) (uint32, error) { return req.Mask, unix.EROFS }

func (readOnly) OpenCreate(
	linux.FileMode, lisafs.UID, lisafs.GID, string, uint32,
) (*lisafs.ControlFD, lisafs.Statx, *lisafs.OpenFD, int, error) {
	return nil, lisafs.Statx{}, nil, -1, unix.EROFS
}

func (readOnly) Mkdir(linux.FileMode, lisafs.UID, lisafs.GID, string) (*lisafs.ControlFD, lisafs.Statx, error) {
	return nil, lisafs.Statx{}, unix.EROFS
}

func (readOnly) Mknod(
	linux.FileMode, lisafs.UID, lisafs.GID, string, uint32, uint32,
) (*lisafs.ControlFD, lisafs.Statx, error) {
	return nil, lisafs.Statx{}, unix.EROFS
}

func (readOnly) Symlink(string, string, lisafs.UID, lisafs.GID) (*lisafs.ControlFD, lisafs.Statx, error) {
	return nil, lisafs.Statx{}, unix.EROFS
}

func (readOnly) Link(lisafs.ControlFDImpl, string) (*lisafs.ControlFD, lisafs.Statx, error) {
	return nil, lisafs.Statx{}, unix.EROFS
}

func (readOnly) Connect(uint32) (int, error) { return -1, unix.EPERM }

func (readOnly) ConnectWithCreds(uint32, lisafs.UID, lisafs.GID) (int, error) {
	return -1, unix.EPERM
}

func (readOnly) BindAt(
	string, uint32, linux.FileMode, lisafs.UID, lisafs.GID,
) (*lisafs.ControlFD, lisafs.Statx, *lisafs.BoundSocketFD, int, error) {
	return nil, lisafs.Statx{}, nil, -1, unix.EROFS
}

func (readOnly) Unlink(string, uint32) error { return unix.EROFS }

func (readOnly) RenameAt(string, lisafs.ControlFDImpl, string) error { return unix.EROFS }

func (readOnly) RenameAt2(string, lisafs.ControlFDImpl, string, uint32) error { return unix.EROFS }

func (readOnly) Renamed() {}

func (readOnly) SetXattr(string, string, uint32) error { return unix.EROFS }

func (readOnly) RemoveXattr(string) error { return unix.EROFS }
