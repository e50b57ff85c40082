//go:build linux

package netstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

const (
	// MTU is what both ends of the card must have, in bytes.
	MTU = 65520
	// PrefixBits is the length of the network's prefix.
	PrefixBits = 24

	nicID = 1
	// maxFlows bounds the connections of a sandbox, and apart from them its UDP flows.
	maxFlows = 1024
	// maxHandshakes bounds the connections that are being made.
	maxHandshakes = 512
	copyBuffer    = 128 << 10
)

// SandboxAddr is the sandbox's address.
func SandboxAddr() netip.Addr { return netip.AddrFrom4([4]byte{10, 88, 0, 2}) }

// GatewayAddr is this side's address, for the sandbox's default route and its resolv.conf.
func GatewayAddr() netip.Addr { return netip.AddrFrom4([4]byte{10, 88, 0, 1}) }

func subnet() netip.Prefix { return netip.PrefixFrom(GatewayAddr(), PrefixBits).Masked() }

// Config is what a Stack needs.
type Config struct {
	// NIC is the host's end of Pair. New takes it over, also when it fails.
	NIC *os.File
	// Guest is the other end. New keeps a copy of it; the caller keeps its own.
	Guest *os.File
	// Policy holds until SetPolicy.
	Policy Policy
	// Denied gets each refusal, after it is remembered; nil ignores them. It must return soon.
	Denied func()
	// Resolvers returns the name servers to forward to; nil means the host's.
	Resolvers func() ([]netip.AddrPort, error)
	// Dial connects to what the policy allowed; nil is a net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Stack serves one sandbox. Its methods may be called from several goroutines.
type Stack struct {
	denied    func()
	resolvers func() ([]netip.AddrPort, error)
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	nic       *os.File
	// peer keeps the guest's end open until Close: once that is closed everywhere, as when the
	// sentry dies, gVisor's reader of the socket neither sleeps nor stops.
	peer     *os.File
	link     stack.LinkEndpoint
	stack    *stack.Stack
	buffers  sync.Pool
	counters counters
	names    names

	// ctx ends with Close; goroutines are counted by wg.
	ctx    context.Context //nolint:containedctx // the flows' lifetime is the stack's, not a call's
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	policy  Policy
	flows   map[*following]struct{}
	closed  bool
	closers map[io.Closer]struct{} // open sockets, which Close closes
	tcpFree chan struct{}
	udpFree chan struct{}
	asking  chan struct{} // taken by each question to the name server that is under way
}

// New starts a stack.
func New(config Config) (*Stack, error) {
	flows, questions := bounds(openFiles())
	s := &Stack{
		policy: config.Policy, denied: config.Denied, resolvers: config.Resolvers, dial: config.Dial, nic: config.NIC,
		closers: map[io.Closer]struct{}{}, flows: map[*following]struct{}{},
		tcpFree: make(chan struct{}, flows), udpFree: make(chan struct{}, flows), asking: make(chan struct{}, questions),
	}
	s.buffers.New = func() any { b := make([]byte, copyBuffer); return &b }
	if s.resolvers == nil {
		s.resolvers = hostResolvers
	}
	if s.dial == nil {
		s.dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.start(config.Guest); err != nil {
		s.cancel()
		if s.stack != nil {
			destroy(s.stack, s.link)
		}
		if s.peer != nil {
			_ = s.peer.Close()
		}
		return nil, errors.Join(fmt.Errorf("start the network stack: %w", err), config.NIC.Close())
	}
	return s, nil
}

// bounds says how many TCP and as many UDP flows and how many questions a sandbox may have at the same time, by the
// number of files that this process may have open: each is one, and who keeps the sandbox needs some for itself.
func bounds(files uint64) (flows, questions int) {
	share := int(min(files, 8*maxFlows))
	return min(maxFlows, share/4), min(maxQuestions, share/8)
}

// openFiles is how many files this process may have open.
func openFiles() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return unix.RLIM_INFINITY
	}
	return limit.Cur
}

func (s *Stack) start(guest *os.File) error {
	var err error
	if s.peer, err = duplicate(guest); err != nil {
		return err
	}
	s.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	if err := tune(s.stack); err != nil {
		return err
	}
	// Before the card, for packets come as soon as that is there.
	s.stack.SetTransportProtocolHandler(
		tcp.ProtocolNumber, tcp.NewForwarder(s.stack, 0, maxHandshakes, s.handleTCP).HandlePacket,
	)
	s.stack.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(s.stack, s.handleUDP).HandlePacket)
	if s.link, err = attach(s.stack, s.nic, GatewayAddr()); err != nil {
		return err
	}
	// Every address is answered for, since every connection ends here.
	if err := s.stack.SetPromiscuousMode(nicID, true); err != nil {
		return tcpipError(err)
	}
	if err := s.stack.SetSpoofing(nicID, true); err != nil {
		return tcpipError(err)
	}
	return nil
}

// tune sets buffers that keep a fast local link busy, and what gVisor leaves off.
func tune(st *stack.Stack) error {
	sack := tcpip.TCPSACKEnabled(true)
	moderate := tcpip.TCPModerateReceiveBufferOption(true)
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: 1 << 20, Max: 4 << 20}
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: 1 << 20, Max: 4 << 20}
	for _, option := range []tcpip.SettableTransportProtocolOption{&sack, &moderate, &send, &receive} {
		if err := st.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			return tcpipError(err)
		}
	}
	return nil
}

// attach gives st a card over nic with that address and a default route.
func attach(st *stack.Stack, nic *os.File, addr netip.Addr) (stack.LinkEndpoint, error) {
	link, err := fdbased.New(&fdbased.Options{
		FDs: []int{int(nic.Fd())}, MTU: MTU, PacketDispatchMode: fdbased.RecvMMsg,
		// A packet that never leaves this machine's memory needs no checksum.
		RXChecksumOffload: true, TXChecksumOffload: true,
		// With more than one, gVisor starts goroutines that it never ends.
		ProcessorsPerChannel: 1,
	})
	if err != nil {
		return nil, err
	}
	if err := st.CreateNIC(nicID, link); err != nil {
		return link, tcpipError(err)
	}
	address := tcpip.ProtocolAddress{
		Protocol:          ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: tcpip.AddrFrom4(addr.As4()), PrefixLen: PrefixBits},
	}
	if err := st.AddProtocolAddress(nicID, address, stack.AddressProperties{}); err != nil {
		return link, tcpipError(err)
	}
	st.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nicID}})
	return link, nil
}

// destroy ends st and its goroutines. The card's reader goes first: the stack would
// wait for it under a lock that the reader may be waiting for.
func destroy(st *stack.Stack, link stack.LinkEndpoint) {
	if link != nil {
		link.Attach(nil)
	}
	st.Destroy()
}

func tcpipError(err tcpip.Error) error { return errors.New(err.String()) }

// Close ends every connection and returns when no goroutine is left. It may be called again.
func (s *Stack) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for c := range s.closers {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.cancel()
	s.stack.Close()
	s.wg.Wait()
	destroy(s.stack, s.link)
	return errors.Join(s.nic.Close(), s.peer.Close())
}

// spawn runs f in a goroutine that Close waits for; false means that the stack is closed.
func (s *Stack) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// hold makes Close close c; false means that the stack is closed, and c is.
func (s *Stack) hold(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return false
	}
	s.closers[c] = struct{}{}
	return true
}

// release closes c, which hold took.
func (s *Stack) release(c io.Closer) {
	s.mu.Lock()
	delete(s.closers, c)
	s.mu.Unlock()
	_ = c.Close()
}

// destination is where the sandbox sent a packet; the stack calls that its local side.
func destination(id stack.TransportEndpointID) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4(id.LocalAddress.As4()), id.LocalPort)
}

func isNameServer(dst netip.AddrPort) bool {
	return dst == netip.AddrPortFrom(GatewayAddr(), dnsPort)
}
