//go:build linux

package hostdir

import (
	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/pkg/lisafs"

	"github.com/seed-0724f904/sb/core/providers/local/runtime/hostfd"
)

// open is an open file.
type open struct {
	lisafs.OpenFD

	share *share
	fd    int
}

var _ lisafs.OpenFDImpl = (*open)(nil)

// FD implements lisafs.OpenFDImpl.
func (o *open) FD() *lisafs.OpenFD { return &o.OpenFD }

// Close implements lisafs.OpenFDImpl.
func (o *open) Close() { _ = unix.Close(o.fd) }

// Stat implements lisafs.OpenFDImpl.
func (o *open) Stat() (lisafs.Statx, error) {
	_, inside, err := o.share.stat(o.fd)
	return inside, err
}

// Sync implements lisafs.OpenFDImpl.
func (o *open) Sync() error { return unix.Fsync(o.fd) }

// Read implements lisafs.OpenFDImpl.
func (o *open) Read(buf []byte, off uint64) (uint64, error) { return hostfd.Read(o.fd, buf, off) }

// Write implements lisafs.OpenFDImpl.
func (o *open) Write(buf []byte, off uint64) (uint64, error) { return hostfd.Write(o.fd, buf, off) }

// Allocate implements lisafs.OpenFDImpl.
func (o *open) Allocate(mode, off, length uint64) error {
	return unix.Fallocate(o.fd, uint32(mode), int64(off), int64(length)) //nolint:gosec // the kernel checks them
}

// Flush implements lisafs.OpenFDImpl.
func (*open) Flush() error { return nil }

// Renamed implements lisafs.OpenFDImpl.
func (*open) Renamed() {}

// Getdent64 implements lisafs.OpenFDImpl.
func (o *open) Getdent64(count uint32, seek0 bool, record func(lisafs.Dirent64)) error {
	var dir unix.Stat_t
	if err := unix.Fstat(o.fd, &dir); err != nil {
		return err
	}
	//nolint:unconvert // the type differs by processor
	major, minor := unix.Major(uint64(dir.Dev)), unix.Minor(uint64(dir.Dev))
	device := func(string) (uint32, uint32, bool) { return major, minor, true }
	return hostfd.Getdent64(o.fd, count, seek0, device, record)
}
