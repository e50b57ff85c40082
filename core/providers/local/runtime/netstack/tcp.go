//go:build linux

package netstack

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// dialTimeout bounds the wait for a destination. The sandbox may stop waiting earlier.
const dialTimeout = 30 * time.Second

// handleTCP is called in a new goroutine for each new connection of the sandbox.
func (s *Stack) handleTCP(r *tcp.ForwarderRequest) {
	done := make(chan struct{})
	if !s.spawn(func() { defer close(done); s.serveTCP(r) }) {
		r.Complete(true)
		return
	}
	<-done
}

func (s *Stack) serveTCP(r *tcp.ForwarderRequest) {
	select {
	case s.tcpFree <- struct{}{}:
		defer func() { <-s.tcpFree }()
	default:
		r.Complete(true)
		return
	}
	dst := destination(r.ID())
	if isNameServer(dst) {
		if conn := s.accept(r); conn != nil {
			defer s.release(conn)
			s.serveDNSOverTCP(conn)
		}
		return
	}
	if name, ok := s.names.of(dst.Addr()); ok {
		s.serveNamed(r, dst, name)
		return
	}
	flow := Flow{Proto: TCP, Dst: dst}
	ctx, end := s.follow(flow)
	defer end()
	if !s.allow(flow) {
		r.Complete(true)
		return
	}
	// The destination comes first, so that the sandbox sees its refusal.
	outside, err := s.dial(ctx, "tcp", dst.String())
	if err != nil {
		r.Complete(true)
		return
	}
	s.join(ctx, r, outside, func(inside *accepted) { s.relay(inside, outside) })
}

// join accepts the sandbox's connection that belongs to outside, and runs relay for the two. Both connections end when
// ctx does.
func (s *Stack) join(ctx context.Context, r *tcp.ForwarderRequest, outside net.Conn, relay func(inside *accepted)) {
	if !s.hold(outside) {
		r.Complete(true)
		return
	}
	defer s.release(outside)
	inside := s.accept(r)
	if inside == nil {
		return
	}
	defer s.release(inside)
	defer context.AfterFunc(ctx, func() {
		inside.reset()
		_ = outside.Close()
	})()
	relay(inside)
}

// accepted is the stack's end of a connection from the sandbox.
type accepted struct {
	*gonet.TCPConn
	endpoint tcpip.Endpoint
}

// reset ends the connection with a reset instead of an orderly end.
func (a *accepted) reset() { a.endpoint.Abort() }

// accept completes the sandbox's handshake. It returns nil if the sandbox has closed the connection. The caller
// releases the connection.
func (s *Stack) accept(r *tcp.ForwarderRequest) *accepted {
	var queue waiter.Queue
	endpoint, err := r.CreateEndpoint(&queue)
	r.Complete(err != nil)
	if err != nil {
		return nil
	}
	conn := &accepted{gonet.NewTCPConn(&queue, endpoint), endpoint}
	if !s.hold(conn) {
		return nil
	}
	return conn
}

// relay copies in both directions until both have ended or one fails.
func (s *Stack) relay(sandbox, outside net.Conn) {
	s.counters.connections.Add(1)
	var wg sync.WaitGroup
	wg.Go(func() { s.pipe(outside, sandbox, &s.counters.sent) })
	s.pipe(sandbox, outside, &s.counters.received)
	wg.Wait()
}

// pipe copies src to dst, including the end of src. After an error it closes both, so that the other direction ends,
// too.
func (s *Stack) pipe(dst, src net.Conn, count *atomic.Int64) {
	if err := s.copy(dst, src, count); err == nil && closeWrite(dst) == nil {
		return
	}
	_ = dst.Close()
	_ = src.Close()
}

func (s *Stack) copy(dst io.Writer, src io.Reader, count *atomic.Int64) error {
	buf, ok := s.buffers.Get().(*[]byte)
	if !ok {
		return errors.ErrUnsupported
	}
	defer s.buffers.Put(buf)
	for {
		n, err := src.Read(*buf)
		if n > 0 {
			if _, werr := dst.Write((*buf)[:n]); werr != nil {
				return werr
			}
			count.Add(int64(n))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// Dial connects to a port of the sandbox through its network card. It does not reach programs that listen on the
// sandbox's loopback only.
func (s *Stack) Dial(ctx context.Context, port int) (net.Conn, error) {
	return gonet.DialContextTCP(ctx, s.stack, fullAddress(SandboxAddr(), port), networkProtocol)
}
