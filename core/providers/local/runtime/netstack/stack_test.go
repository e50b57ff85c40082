//go:build linux

package netstack

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// policyFunc is a policy made of a function.
type policyFunc func(Flow) (bool, string)

func (f policyFunc) Allow(_ context.Context, flow Flow) (bool, string) { return f(flow) }

func (policyFunc) ByName() bool { return false }

func allowAll(Flow) (bool, string) { return true, "" }

// sandbox is a second stack at the guest's end, in the place of the sentry's.
type sandbox struct{ stack *stack.Stack }

func (s sandbox) dial(ctx context.Context, to netip.AddrPort) (*gonet.TCPConn, error) {
	return gonet.DialContextTCP(ctx, s.stack, fullAddress(to.Addr(), int(to.Port())), networkProtocol)
}

func (s sandbox) dialUDP(t *testing.T, to netip.AddrPort) *gonet.UDPConn {
	t.Helper()
	remote := fullAddress(to.Addr(), int(to.Port()))
	c, err := gonet.DialUDP(s.stack, nil, &remote, networkProtocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// elsewhere is the address of a machine outside. The tests dial the loopback instead, which packets cannot address.
func elsewhere() netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, 1}) }

func outside(addr net.Addr) netip.AddrPort {
	return netip.AddrPortFrom(elsewhere(), netip.MustParseAddrPort(addr.String()).Port())
}

// connect starts a Stack and a sandbox at its other end.
func connect(t testing.TB, policy Policy, resolvers ...netip.AddrPort) (*Stack, sandbox) {
	t.Helper()
	return connectBy(t, dialElsewhere, policy, resolvers...)
}

// dialElsewhere reaches elsewhere, which is a port of this machine, and nothing else.
func dialElsewhere(ctx context.Context, network, address string) (net.Conn, error) {
	to := netip.MustParseAddrPort(address)
	if to.Addr() != elsewhere() {
		return nil, fmt.Errorf("dialled %v", to)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), to.Port()).String())
}

// connectBy is connect with another dialer.
func connectBy(t testing.TB, dial func(ctx context.Context, network, address string) (net.Conn, error),
	policy Policy, resolvers ...netip.AddrPort,
) (*Stack, sandbox) {
	t.Helper()
	host, guest, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	peer, err := duplicate(host) // as Stack.peer, for the sandbox's stack
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{
		NIC: host, Guest: guest, Policy: policy,
		Resolvers: func() ([]netip.AddrPort, error) { return resolvers, nil },
		Dial:      dial,
	})
	if err != nil {
		t.Fatal(err)
	}
	in := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	link, err := attach(in, guest, SandboxAddr())
	if err := errors.Join(err, tune(in)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		destroy(in, link)
		_ = errors.Join(guest.Close(), peer.Close())
	})
	return s, sandbox{in}
}

// listen serves each TCP connection with handle until the test ends.
func listen(t testing.TB, handle func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer func() { _ = c.Close() }(); handle(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return outside(l.Addr())
}

func echo(c net.Conn) { _, _ = io.Copy(c, c) }

func TestTCPCarriesBothWaysAndHalfCloses(t *testing.T) {
	s, in := connect(t, policyFunc(allowAll))
	c, err := in.dial(t.Context(), listen(t, func(c net.Conn) {
		all, _ := io.ReadAll(c) // ends only if the sandbox's end of file arrives
		_, _ = c.Write(all)
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	sent := make([]byte, 5<<20)
	_, _ = rand.Read(sent)
	if _, err := c.Write(sent); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("came back: %d bytes, %v; want the %d that were sent", len(got), err, len(sent))
	}
	if st := s.Stats(); st.Sent != int64(len(sent)) || st.Received != int64(len(sent)) || st.Connections != 1 {
		t.Errorf("stats: %+v", st)
	}
}

func TestRefusedByPolicyIsResetAtOnce(t *testing.T) {
	policy := NewAllowPublic()
	policy.route = routes(elsewhere().String(), unix.RTN_LOCAL, "", unix.RTN_UNICAST)
	s, in := connect(t, policy)
	own := listen(t, echo)
	for _, dst := range []netip.AddrPort{
		own, own, netip.MustParseAddrPort("169.254.169.254:80"), netip.AddrPortFrom(GatewayAddr(), 80),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := in.dial(ctx, dst)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("dial %v: %v, want a refusal", dst, err)
		}
	}
	denials := s.Denials()
	if len(denials) != 3 || denials[0].Flow.Dst != own || denials[0].Reason == "" || denials[0].Count != 2 ||
		denials[1].Count != 1 || s.Stats().Denied != 4 {
		t.Errorf("denials: %+v", denials)
	}
}

func TestClosedPortIsRefused(t *testing.T) {
	_, in := connect(t, policyFunc(allowAll))
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := outside(l.Addr())
	_ = l.Close()
	if _, err := in.dial(t.Context(), addr); err == nil {
		t.Error("connected to a closed port")
	}
}

func TestUDP(t *testing.T) {
	_, in := connect(t, policyFunc(allowAll))
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(buf[:n], from)
		}
	})
	t.Cleanup(func() { _ = server.Close(); wg.Wait() })
	c := in.dialUDP(t, outside(server.LocalAddr()))
	for i := range 3 {
		want := fmt.Sprintf("packet %d", i)
		_, _ = c.Write([]byte(want))
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		buf := make([]byte, 100)
		n, err := c.Read(buf)
		if err != nil || string(buf[:n]) != want {
			t.Fatalf("got %q, %v", buf[:n], err)
		}
	}
}

// nameServer answers every question over UDP and TCP with 192.0.2.7.
func nameServer(t *testing.T) netip.AddrPort {
	t.Helper()
	return nameServerOf(t, func(string) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, 7}) })
}

// nameServerOf answers every question over UDP and TCP by an address, if it is valid.
func nameServerOf(t *testing.T, where func(name string) netip.Addr) netip.AddrPort {
	t.Helper()
	answer := func(query []byte) []byte {
		var m dnsmessage.Message
		if m.Unpack(query) != nil {
			return nil
		}
		m.Response = true
		if addr := where(m.Questions[0].Name.String()); addr.IsValid() {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 1},
				Body:   &dnsmessage.AResource{A: addr.As4()},
			}}
		}
		packed, _ := m.Pack()
		return packed
	}
	var addr netip.AddrPort
	var packets net.PacketConn
	for attempt := 0; packets == nil; attempt++ { // a port that is free for TCP may be taken for UDP
		addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), listen(t, func(c net.Conn) {
			if query, err := readMessage(c); err == nil {
				_ = writeMessage(c, answer(query))
			}
		}).Port())
		var err error
		if packets, err = net.ListenPacket("udp4", addr.String()); err != nil && attempt == 10 {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(answer(buf[:n]), from)
		}
	})
	t.Cleanup(func() { _ = packets.Close(); wg.Wait() })
	return addr
}

func TestDNS(t *testing.T) {
	server := nameServer(t)
	policy := policyFunc(func(f Flow) (bool, string) {
		return f.Proto == DNS && f.Name != "secret.example", "only names"
	})
	dead := netip.MustParseAddrPort("127.0.0.1:1") // a query to a dead server goes to the next one
	s, in := connect(t, policy, dead, server)
	for _, network := range []string{"udp", "tcp"} {
		resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			gateway := netip.AddrPortFrom(GatewayAddr(), dnsPort)
			if network == "udp" {
				return in.dialUDP(t, gateway), nil
			}
			return in.dial(ctx, gateway)
		}}
		addrs, err := resolver.LookupNetIP(t.Context(), "ip4", "public.example.")
		if err != nil || len(addrs) == 0 || addrs[0] != netip.MustParseAddr("192.0.2.7") {
			t.Errorf("%s: %v, %v", network, addrs, err)
		}
		_, err = resolver.LookupNetIP(t.Context(), "ip4", "secret.example.")
		if e, ok := errors.AsType[*net.DNSError](err); !ok || !e.IsNotFound {
			t.Errorf("%s: refused name: %v, want not found", network, err)
		}
	}
	if s.Stats().Denied == 0 {
		t.Error("refused names are not counted")
	}
}

func TestPublish(t *testing.T) {
	s, in := connect(t, policyFunc(allowAll))
	l, err := gonet.ListenTCP(in.stack, fullAddress(SandboxAddr(), 8080), networkProtocol)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if c, err := l.Accept(); err == nil {
			echo(c)
			_ = c.Close()
		}
	})
	t.Cleanup(func() { l.Shutdown(); _ = l.Close(); wg.Wait() })

	addr, err := s.Publish(t.Context(), 0, 8080, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}

	port := int(netip.MustParseAddrPort(addr).Port())
	if _, err := s.Publish(t.Context(), port, 8080, nil); !errors.Is(err, core.KindConflict) {
		t.Errorf("the same port again: %v, want a conflict", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("the port is open after Close")
	}
}

func TestCloseEndsOpenConnections(t *testing.T) {
	s, in := connect(t, policyFunc(allowAll))
	ended := make(chan struct{})
	c, err := in.dial(t.Context(), listen(t, func(c net.Conn) { echo(c); close(ended) }))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	providertest.Receive(t, ended)
}

func TestCloseReturnsAfterTheSandboxDied(t *testing.T) {
	host, guest, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{NIC: host, Guest: guest, Policy: policyFunc(allowAll)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(guest.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestNewFailsWithoutSocket(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if s, err := New(Config{NIC: f, Guest: f, Policy: policyFunc(allowAll)}); err == nil {
		_ = s.Close()
		t.Error("New took a closed file")
	}
}

func BenchmarkDownload(b *testing.B) {
	const size = 64 << 20
	chunk := make([]byte, 1<<20)
	addr := listen(b, func(c net.Conn) {
		for range size / len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	})
	_, in := connect(b, policyFunc(allowAll))
	b.SetBytes(size)
	for b.Loop() {
		c, err := in.dial(b.Context(), addr)
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, c, chunk); n != size {
			b.Fatal(n, err)
		}
		_ = c.Close()
	}
}

func BenchmarkConnect(b *testing.B) {
	addr := listen(b, echo)
	_, in := connect(b, policyFunc(allowAll))
	for b.Loop() {
		c, err := in.dial(b.Context(), addr)
		if err != nil {
			b.Fatal(err)
		}
		_ = c.Close()
	}
}
