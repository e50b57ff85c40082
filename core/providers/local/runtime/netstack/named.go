//go:build linux

package netstack

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// greetingPatience bounds the wait for the host name on a connection to a domain.
const greetingPatience = 30 * time.Second

// unreadable is the reason for refusing a protocol without a host name.
const unreadable = "this protocol does not name its server; allow the server's address instead"

// serveNamed connects to name, whose stand-in is dst.
func (s *Stack) serveNamed(r *tcp.ForwarderRequest, dst netip.AddrPort, name string) {
	flow := Flow{Proto: TCP, Dst: dst, Name: name}
	ctx, end := s.follow(flow)
	defer end()
	if !s.allow(flow) {
		r.Complete(true)
		return
	}
	outside, alone, err := s.dialName(ctx, flow)
	if err != nil {
		r.Complete(true)
		return
	}
	s.join(ctx, r, outside, func(inside *accepted) {
		if alone {
			s.relay(inside, outside)
			return
		}
		s.relayNamed(ctx, inside, outside, flow)
	})
}

// relayNamed forwards only requests for flow.Name, because the server at outside may serve many names.
func (s *Stack) relayNamed(ctx context.Context, inside *accepted, outside net.Conn, flow Flow) {
	_ = inside.SetReadDeadline(time.Now().Add(greetingPatience))
	greeting := readGreeting(inside)
	_ = inside.SetReadDeadline(time.Time{})
	again := &replayed{Conn: inside, reader: replay(greeting.data, inside)}
	switch {
	case greeting.protocol == speaksHTTP:
		s.counters.connections.Add(1)
		s.serveHTTP(ctx, again, outside, flow)
	case greeting.protocol == speaksTLS && canonical(greeting.host) == flow.Name:
		s.relay(again, outside)
	case greeting.protocol == speaksSSH:
		server, ok := sshServer(outside)
		if !ok {
			s.refuse(flow, unreadable)
			inside.reset()
			return
		}
		s.relay(again, server)
	case greeting.protocol == speaksTLS:
		s.refuse(flow, "the connection to "+flow.Name+" asks for "+orNoName(greeting.host))
		inside.reset()
	case len(greeting.data) > 0:
		s.refuse(flow, unreadable)
		inside.reset()
	}
}

// sshServer returns outside if it is an SSH server. Such a server sends its identification first. Until then nothing is
// sent to it, because an HTTP server could treat the client's identification as a request.
func sshServer(outside net.Conn) (server net.Conn, ok bool) {
	_ = outside.SetReadDeadline(time.Now().Add(greetingPatience))
	banner, ok := identified(outside)
	_ = outside.SetReadDeadline(time.Time{})
	return &replayed{Conn: outside, reader: replay(banner, outside)}, ok
}

func orNoName(host string) string {
	if host == "" {
		return "no name"
	}
	return host
}

// dialName connects to a name. alone reports whether the policy allows the address without the name, too.
func (s *Stack) dialName(ctx context.Context, flow Flow) (conn net.Conn, alone bool, err error) {
	addrs, err := s.lookup(ctx, flow.Name)
	if err != nil {
		return nil, false, err
	}
	policy, refused := s.current(), ""
	err = errors.New("no address is allowed")
	for _, addr := range addrs {
		dst := netip.AddrPortFrom(addr, flow.Dst.Port())
		alone, _ := policy.Allow(ctx, Flow{Proto: TCP, Dst: dst})
		allowed, reason := policy.Allow(ctx, Flow{Proto: TCP, Dst: dst, Name: flow.Name})
		if !alone && !allowed {
			refused = flow.Name + " is " + addr.String() + ": " + reason
			continue
		}
		if conn, err = s.dial(ctx, "tcp", dst.String()); err == nil {
			return conn, alone, nil
		}
	}
	if refused != "" {
		s.refuse(flow, refused)
	}
	return nil, false, err
}
