package service

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// Dial connects to a TCP port inside a sandbox. The caller closes the connection.
func (s Ports) Dial(ctx context.Context, ref string, port int) (conn net.Conn, err error) {
	err = s.act(ctx, "port forward", ref, map[string]any{"port": port}, func(sb core.Sandbox, _ core.Provider) error {
		dial, err := s.dialer(sb, port)
		if err == nil {
			conn, err = dial(ctx)
		}
		return err
	})
	return conn, err
}

// dialer returns the function that connects to a port of a sandbox.
func (s *base) dialer(sb core.Sandbox, port int) (func(context.Context) (net.Conn, error), error) {
	if port < 1 || port > 65535 {
		return nil, core.Invalid("port", "%d is not a port", port)
	}
	forwarder, err := capable[core.PortForwarder](s, sb.Provider, "port forward")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (net.Conn, error) { return forwarder.DialPort(ctx, sb.ID, port) }, nil
}

// Forward connects each client of listener with a TCP port in a sandbox until ctx ends. That end is no error. It closes
// listener and returns when all connections are closed. If a connection fails, its client is closed at once and failed
// receives the error. failed may be nil; it is called concurrently.
func (s Ports) Forward(ctx context.Context, ref string, port int, listener net.Listener, failed func(error)) error {
	defer func() { _ = listener.Close() }()
	return s.act(ctx, "port forward", ref, map[string]any{"port": port, "listen": listener.Addr().String()}, func(
		sb core.Sandbox, _ core.Provider,
	) error {
		dial, err := s.dialer(sb, port)
		if err != nil {
			return err
		}
		var connections sync.WaitGroup
		defer connections.Wait()
		defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
		for {
			outside, err := listener.Accept()
			if ctx.Err() != nil {
				if err == nil {
					_ = outside.Close()
				}
				return nil
			}
			if err != nil {
				return core.Errorf(core.KindInternal, "port forward", ref, "no more connections can be accepted: %w", err)
			}
			connections.Go(func() {
				defer func() { _ = outside.Close() }()
				inside, err := dial(ctx)
				if err != nil {
					if failed != nil && ctx.Err() == nil {
						failed(err)
					}
					return
				}
				splice(ctx, outside, inside)
			})
		}
	})
}

// splice copies both ways until both ends are at their end, or ctx is, and closes inside.
func splice(ctx context.Context, outside, inside net.Conn) {
	defer func() { _ = inside.Close() }()
	defer context.AfterFunc(ctx, func() {
		_ = outside.Close()
		_ = inside.Close()
	})()
	var both sync.WaitGroup
	carry := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		half, ok := to.(interface{ CloseWrite() error })
		if ok && (err == nil || errors.Is(err, io.EOF)) && half.CloseWrite() == nil {
			return
		}
		_ = to.Close()
		_ = from.Close()
	}
	both.Go(func() { carry(inside, outside) })
	both.Go(func() { carry(outside, inside) })
	both.Wait()
}
