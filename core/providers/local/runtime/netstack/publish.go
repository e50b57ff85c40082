//go:build linux

package netstack

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// acceptPause is the wait after a failed accept, as when descriptors ran out.
const acceptPause = 50 * time.Millisecond

// DialFunc connects to a port inside the sandbox.
type DialFunc func(ctx context.Context, port int) (net.Conn, error)

// Publish listens on hostPort of the host's loopback (0: a free port), and relays to sandboxPort until Close. It
// returns host:port. dial connects to the sandbox. If dial is nil, Publish connects through the sandbox's network card,
// which reaches only programs that listen on all addresses. ctx bounds the start only. KindConflict: the port is in
// use. KindUnauthorized: it is a privileged port.
func (s *Stack) Publish(ctx context.Context, hostPort, sandboxPort int, dial DialFunc) (string, error) {
	if dial == nil {
		dial = s.Dial
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(hostPort))
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", address)
	if err != nil {
		kind, hint := core.KindOf(err), ""
		switch {
		case errors.Is(err, unix.EADDRINUSE):
			kind, hint = core.KindConflict, "choose another host port, or 0 for a free one"
		case errors.Is(err, unix.EACCES):
			kind, hint = core.KindUnauthorized, "choose a host port from 1024 up, or 0 for a free one"
		}
		return "", core.Errorf(kind, "publish", address, "%w", err).WithHint("%s", hint)
	}
	if !s.hold(listener) {
		return "", core.Errorf(core.KindConflict, "publish", address, "the network is closed")
	}
	if !s.spawn(func() { s.acceptAll(listener, sandboxPort, dial) }) {
		s.release(listener)
		return "", core.Errorf(core.KindConflict, "publish", address, "the network is closed")
	}
	return listener.Addr().String(), nil
}

func (s *Stack) acceptAll(listener net.Listener, port int, dial DialFunc) {
	defer s.release(listener)
	for {
		conn, err := listener.Accept()
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		if !s.hold(conn) {
			return
		}
		if !s.spawn(func() { defer s.release(conn); s.servePublished(conn, port, dial) }) {
			s.release(conn)
		}
	}
}

func (s *Stack) servePublished(client net.Conn, port int, dial DialFunc) {
	select {
	case s.tcpFree <- struct{}{}:
		defer func() { <-s.tcpFree }()
	default:
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, dialTimeout)
	defer cancel()
	sandbox, err := dial(ctx, port)
	if err != nil {
		// No program listens inside. A reset reports that. An orderly end would look like an empty answer.
		if t, ok := client.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		return
	}
	if !s.hold(sandbox) {
		return
	}
	defer s.release(sandbox)
	s.relay(sandbox, client)
}
