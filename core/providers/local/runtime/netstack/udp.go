//go:build linux

package netstack

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	networkProtocol = ipv4.ProtocolNumber
	maxDatagram     = 64 << 10
	// udpIdle is the lifetime of a UDP flow without a packet in either direction.
	udpIdle = time.Minute
)

func fullAddress(addr netip.Addr, port int) tcpip.FullAddress {
	//nolint:gosec // callers pass ports
	return tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFrom4(addr.As4()), Port: uint16(port)}
}

// handleUDP is called for the first packet of a flow, and must not block the packet's path. If it returns false, the
// stack answers that the port is unreachable.
func (s *Stack) handleUDP(r *udp.ForwarderRequest) bool {
	dst := destination(r.ID())
	nameServer := isNameServer(dst)
	select {
	case s.udpFree <- struct{}{}:
	default:
		return true // dropped: too many flows
	}
	ctx, end := s.ctx, func() {}
	if !nameServer {
		if ctx, end = s.admitUDP(dst); ctx == nil {
			<-s.udpFree
			return false
		}
	}
	free := func() { end(); <-s.udpFree }
	var queue waiter.Queue
	endpoint, err := r.CreateEndpoint(&queue)
	if err != nil {
		free()
		return true
	}
	inside := gonet.NewUDPConn(&queue, endpoint)
	started := s.hold(inside) && s.spawn(func() {
		defer free()
		defer s.release(inside)
		if nameServer {
			s.serveDNSOverUDP(inside)
			return
		}
		s.serveUDP(ctx, inside, dst)
	})
	if !started {
		free()
	}
	return true
}

// admitUDP follows a flow that the policy allows. For a refused flow ctx is nil.
func (s *Stack) admitUDP(dst netip.AddrPort) (ctx context.Context, end func()) {
	flow := Flow{Proto: UDP, Dst: dst}
	if name, ok := s.names.of(dst.Addr()); ok {
		flow.Name = name
		s.refuse(flow, "only TCP can use an allowed domain: UDP does not name its server")
		return nil, nil
	}
	ctx, end = s.follow(flow)
	if !s.allow(flow) {
		end()
		return nil, nil
	}
	return ctx, end
}

func (s *Stack) serveUDP(ctx context.Context, inside net.Conn, dst netip.AddrPort) {
	outside, err := s.dial(ctx, "udp", dst.String())
	if err != nil || !s.hold(outside) {
		return
	}
	defer s.release(outside)
	defer context.AfterFunc(ctx, func() {
		_ = inside.Close()
		_ = outside.Close()
	})()
	s.counters.connections.Add(1)
	var lastUse atomic.Int64
	lastUse.Store(time.Now().UnixNano())
	var wg sync.WaitGroup
	wg.Go(func() {
		s.datagrams(outside, inside, &lastUse, &s.counters.sent)
		_ = outside.Close()
	})
	s.datagrams(inside, outside, &lastUse, &s.counters.received)
	_ = inside.Close()
	wg.Wait()
}

// datagrams copies packets until src fails or both directions were idle for udpIdle.
func (s *Stack) datagrams(dst, src net.Conn, lastUse, count *atomic.Int64) {
	buf, ok := s.buffers.Get().(*[]byte)
	if !ok {
		return
	}
	defer s.buffers.Put(buf)
	for {
		idleEnd := time.Unix(0, lastUse.Load()).Add(udpIdle)
		if !time.Now().Before(idleEnd) {
			return
		}
		_ = src.SetReadDeadline(idleEnd)
		n, err := src.Read(*buf)
		if isTimeout(err) {
			continue // the other direction may have been active
		}
		if err != nil {
			return
		}
		lastUse.Store(time.Now().UnixNano())
		// A datagram may be lost; the flow continues.
		if _, err := dst.Write((*buf)[:n]); err == nil {
			count.Add(int64(n))
		}
	}
}
