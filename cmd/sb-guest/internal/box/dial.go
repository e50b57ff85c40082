//go:build linux

package box

import (
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/wire"
)

// dial connects the caller with a port on the sandbox's loopback. After the reply the call carries the connection's bytes.
func (b *Box) dial(r wire.Request, c *client) error {
	if err := b.acquire(); err != nil {
		return err
	}
	defer b.release()
	conn, err := connect(r.Port)
	if err != nil {
		return core.Errorf(core.KindUnavailable, "port", "", "nothing listens on port %d: %w", r.Port, err)
	}
	defer func() { _ = conn.Close() }()
	c.reply(wire.Reply{})
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(conn, c.from)
		shut(conn, unix.SHUT_WR)
	})
	both.Go(func() {
		if _, err := io.Copy(c.to, conn); err != nil {
			shut(conn, unix.SHUT_RD) // the caller has left
			_ = c.from.Close()
		}
		_ = c.to.Close()
	})
	both.Wait()
	return nil
}

func shut(conn *os.File, how int) {
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), how) })
	}
}

// connect connects to a port on the loopback, of either family. That is answered at once.
func connect(port int) (*os.File, error) {
	conn, err := connectTo(unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err != nil {
		if six, sixErr := connectTo(unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}); sixErr == nil {
			return six, nil
		}
	}
	return conn, err
}

func connectTo(family int, address unix.Sockaddr) (*os.File, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// So that a listener whose queue is full holds the call up for a while only.
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
