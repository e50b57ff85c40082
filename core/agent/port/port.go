//go:build linux

package port

import (
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Carry copies in to conn and conn to out, until both directions have ended. It closes out.
func Carry(conn *os.File, in io.ReadCloser, out io.WriteCloser) {
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(conn, in)
		shut(conn, unix.SHUT_WR)
	})
	both.Go(func() {
		if _, err := io.Copy(out, conn); err != nil {
			shut(conn, unix.SHUT_RD) // the caller has disconnected
			_ = in.Close()
		}
		_ = out.Close()
	})
	both.Wait()
}

func shut(conn *os.File, how int) {
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), how) })
	}
}

// Connect connects to a port on the loopback, of either family. That is answered at once.
func Connect(port int) (*os.File, error) {
	conn, err := connectTo(unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err != nil {
		if six, sixErr := connectTo(unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}); sixErr == nil {
			return six, nil
		}
	}
	return conn, err
}

// ConnectFrom connects to a port at the address at which client arrived, or else as Connect does.
func ConnectFrom(client *os.File, port int) (*os.File, error) {
	raw, err := client.SyscallConn()
	if err != nil {
		return nil, err
	}
	var local unix.Sockaddr
	if err := raw.Control(func(fd uintptr) { local, _ = unix.Getsockname(int(fd)) }); err != nil {
		return nil, err
	}
	if here, ok := local.(*unix.SockaddrInet4); ok {
		if conn, err := connectTo(unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: here.Addr}); err == nil {
			return conn, nil
		}
	}
	return Connect(port)
}

func connectTo(family int, address unix.Sockaddr) (*os.File, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// A listener with a full queue must not block the call without limit.
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 10})
	if err := unix.Connect(fd, address); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{})
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "port"), nil
}
