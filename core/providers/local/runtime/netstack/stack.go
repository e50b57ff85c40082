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
	// MTU is the MTU of both ends of the card, in bytes.
	MTU = 65520
	// PrefixBits is the length of the network's prefix.
	PrefixBits = 24

	nicID = 1
	// maxFlows bounds a sandbox's TCP connections, and separately its UDP flows.
	maxFlows = 1024
	// maxHandshakes bounds the pending handshakes.
	maxHandshakes = 512
	copyBuffer    = 128 << 10
)

// SandboxAddr is the sandbox's address.
func SandboxAddr() netip.Addr { return netip.AddrFrom4([4]byte{10, 88, 0, 2}) }

// GatewayAddr is this side's address, for the sandbox's default route and its resolv.conf.
func GatewayAddr() netip.Addr { return netip.AddrFrom4([4]byte{10, 88, 0, 1}) }

func subnet() netip.Prefix { return netip.PrefixFrom(GatewayAddr(), PrefixBits).Masked() }

// Config is the configuration of a Stack.
type Config struct {
	// NIC is the host's end of Pair. New takes ownership, also if it fails.
	NIC *os.File
	// Guest is the other end. New makes a copy; the caller keeps ownership.
	Guest *os.File
	// Policy applies until SetPolicy.
	Policy Policy
	// Denied is called after each refusal is recorded; nil ignores them. It must return soon.
	Denied func()
	// Resolvers returns the name servers to forward to; nil means the host's.
	Resolvers func() ([]netip.AddrPort, error)
	// Dial connects to allowed destinations; nil uses a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Stack serves one sandbox. Its methods are safe for concurrent use.
type Stack struct {
	denied    func()
	resolvers func() ([]netip.AddrPort, error)
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	nic       *os.File
	// peer keeps the guest's end open until Close. If all copies of that end are closed, as when the sentry dies, gVisor's
	// reader of the socket runs in a busy loop.
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
	asking  chan struct{} // has an element for each pending DNS query
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

// bounds returns the limits of a sandbox's concurrent flows, for each of TCP and UDP, and of its DNS queries. files is
// the limit of open files. Each flow or query needs one file, and the supervisor needs some, too.
func bounds(files uint64) (flows, questions int) {
	share := int(min(files, 8*maxFlows))
	return min(maxFlows, share/4), min(maxQuestions, share/8)
}

// openFiles returns this process's limit of open files.
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
	// The handlers come before the card, because packets arrive as soon as the card exists.
	s.stack.SetTransportProtocolHandler(
		tcp.ProtocolNumber, tcp.NewForwarder(s.stack, 0, maxHandshakes, s.handleTCP).HandlePacket,
	)
	s.stack.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(s.stack, s.handleUDP).HandlePacket)
	if s.link, err = attach(s.stack, s.nic, GatewayAddr()); err != nil {
		return err
	}
	// The stack accepts packets for all addresses, because it terminates every connection.
	if err := s.stack.SetPromiscuousMode(nicID, true); err != nil {
		return tcpipError(err)
	}
	if err := s.stack.SetSpoofing(nicID, true); err != nil {
		return tcpipError(err)
	}
	return nil
}

// tune sets buffers for a fast local link, and enables options that are off by default in gVisor.
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

// attach adds a card over nic to st, with the address addr and a default route.
func attach(st *stack.Stack, nic *os.File, addr netip.Addr) (stack.LinkEndpoint, error) {
	link, err := fdbased.New(&fdbased.Options{
		FDs: []int{int(nic.Fd())}, MTU: MTU, PacketDispatchMode: fdbased.RecvMMsg,
		// A packet that never leaves this machine's memory needs no checksum.
		RXChecksumOffload: true, TXChecksumOffload: true,
		// With more than one processor, gVisor starts goroutines that never end.
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

// destroy ends st and its goroutines. It ends the card's reader first. Otherwise the stack could wait for the reader
// with a lock that the reader needs.
func destroy(st *stack.Stack, link stack.LinkEndpoint) {
	if link != nil {
		link.Attach(nil)
	}
	st.Destroy()
}

func tcpipError(err tcpip.Error) error { return errors.New(err.String()) }

// Close ends all connections and returns when all goroutines have ended. It may be called again.
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

// spawn runs f in a goroutine that Close waits for. It returns false if the stack is closed.
func (s *Stack) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(f)
	return true
}

// hold registers c, so that Close closes it. If the stack is closed, hold closes c and returns false.
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

// release unregisters and closes c.
func (s *Stack) release(c io.Closer) {
	s.mu.Lock()
	delete(s.closers, c)
	s.mu.Unlock()
	_ = c.Close()
}

// destination returns the destination of a packet from the sandbox, which is the stack's local address.
func destination(id stack.TransportEndpointID) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4(id.LocalAddress.As4()), id.LocalPort)
}

func isNameServer(dst netip.AddrPort) bool {
	return dst == netip.AddrPortFrom(GatewayAddr(), dnsPort)
}
