//go:build linux

package netstack

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pairBuffer is each end's buffer in bytes. A packet uses more of it than its length. If it is full, the sender loses
// the packet.
const pairBuffer = 4 << 20

// duplicate returns another descriptor for the file of f.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// Pair returns the two ends of a packet socket: host for Config.NIC, guest for the sandbox's network card. The caller
// closes guest after the sandbox and New have received it.
func Pair() (host, guest *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a packet socket: %w", err)
	}
	for _, fd := range fds {
		for _, options := range [][2]int{{unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}, {unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}} {
			// The first option needs a privilege and ignores net.core.wmem_max. A smaller buffer only costs speed.
			if unix.SetsockoptInt(fd, unix.SOL_SOCKET, options[0], pairBuffer) != nil {
				_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, options[1], pairBuffer)
			}
		}
	}
	return os.NewFile(uintptr(fds[0]), "nic-host"), os.NewFile(uintptr(fds[1]), "nic-guest"), nil
}
