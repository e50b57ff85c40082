//go:build linux

package supervisor

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/socket"
)

// dial connects to a port inside. The sandbox stays awake while the connection is open.
func (s *Supervisor) dial(ctx context.Context, port int) (net.Conn, error) {
	if err := s.acquire(); err != nil {
		return nil, err
	}
	// sb-guest also reaches programs that listen on loopback, but a checkpoint is impossible during its use.
	if conn, err := s.stack.Dial(ctx, port); err == nil {
		return &busyConn{Conn: conn, release: s.release}, nil
	}
	s.countForward(1)
	done := func() { s.countForward(-1); s.release() }
	conn, err := s.box.Dial(ctx, uint16(port)) //nolint:gosec // the spec or the client has validated it
	if err != nil {
		done()
		return nil, err
	}
	return &busyConn{Conn: conn, release: done}, nil
}

func (s *Supervisor) countForward(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forwards += more
}

// busyConn counts as activity until it is closed.
type busyConn struct {
	net.Conn
	once    sync.Once
	release func()
}

func (c *busyConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}

// CloseWrite passes on the end of one direction.
func (c *busyConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// forward connects the client's socket with a port inside until either is closed or the sandbox ends.
func (s *Supervisor) forward(ctx context.Context, port int, files *socket.Files) error {
	if port < 1 || port > 65535 {
		return core.Errorf(core.KindUsage, "port forward", s.launch.ID, "%d is not a port", port)
	}
	passed, err := files.Take(1)
	if err != nil {
		return err
	}
	defer closeAll(passed)
	inside, err := s.dial(ctx, port)
	if _, ok := errors.AsType[*core.Error](err); ok {
		return err
	}
	if err != nil {
		return core.Errorf(core.KindUnavailable, "port forward", s.launch.ID, "nothing answers on port %d: %w", port, err)
	}
	conn, err := net.FileConn(passed[0])
	if err != nil {
		return errors.Join(err, inside.Close())
	}
	client, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.Join(
			core.Errorf(core.KindInternal, "port forward", s.launch.ID, "the client passed no unix socket"), conn.Close(),
			inside.Close(),
		)
	}
	s.wg.Go(func() { s.carry(client, inside) })
	return nil
}

// carry copies in both directions and then closes both connections. It ends when both directions have ended, one has
// failed, or the client or the sandbox is gone.
func (s *Supervisor) carry(client *net.UnixConn, inside net.Conn) {
	closeBoth := func() {
		_ = client.Close()
		_ = inside.Close()
	}
	over := make(chan struct{})
	var watches, copies sync.WaitGroup
	defer watches.Wait()
	defer close(over)
	defer closeBoth()
	watches.Go(func() {
		select {
		case <-s.box.Done():
			closeBoth()
		case <-over:
		}
	})
	pass := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		half, ok := to.(interface{ CloseWrite() error })
		if err != nil || !ok || half.CloseWrite() != nil {
			closeBoth()
		}
	}
	copies.Go(func() { pass(client, inside) })
	copies.Go(func() {
		pass(inside, client)
		// A server inside may ignore the end of input. Then a disconnected client would keep the sandbox awake.
		watches.Go(func() {
			if hungUp(client) {
				closeBoth()
			}
		})
	})
	copies.Wait()
}

// hungUp waits until one end of a connection is closed. It returns true if the other end is closed in both directions,
// and false if this end is.
func hungUp(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	return raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd)}} //nolint:gosec // a descriptor
		_, err := unix.Poll(fds, 0)
		return err == nil && fds[0].Revents&unix.POLLHUP != 0
	}) == nil
}
