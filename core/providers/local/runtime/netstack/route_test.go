//go:build linux

package netstack

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core/providertest"
)

// inNamespace is the variable that is set when this program runs in its own network namespace.
const inNamespace = "SB_TEST_NETNS"

// TestHostIsUnreachable gives a simulated machine every kind of address that reaches it, and tries each from a sandbox.
func TestHostIsUnreachable(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		inNetworkNamespace(t)
		return
	}
	setUpMachine(t)
	port, reached := serveAll(t)
	for _, test := range []struct {
		what, address string
		datagrams     bool // alone reach the host there
	}{
		{"an interface's address", "192.168.7.5", false},
		{"a network's broadcast", "192.168.7.255", true},
		{"a broadcast route", "203.0.113.77", true},
		{"a local route", "198.51.100.9", false},
		{"a local route of another table", "192.0.2.9", true},
	} {
		t.Run(test.what, func(t *testing.T) {
			dst := netip.AddrPortFrom(netip.MustParseAddr(test.address), port)
			control := overMachine(t, policyFunc(allowAll))
			sent := int64(1)
			before := reached.Load()
			send(t, control, dst)
			if !test.datagrams {
				try(t, control, dst, true)
				sent++
			}
			await(t, "without a policy the host is reached", func() bool { return reached.Load() == before+sent })

			policy := NewAllowPublic()
			before = reached.Load()
			byAddress := overMachine(t, policy)
			send(t, byAddress, dst)
			try(t, byAddress, dst, false)
			await(t, "both are refused", func() bool { return byAddress.stack.Stats().Denied == 2 || reached.Load() > before })
			byName := overMachine(t, NewAllowList(policy, []string{"host.example"}),
				nameServerOf(t, func(string) netip.Addr { return dst.Addr() }))
			standIn, ok := byName.stack.names.learn("host.example", []netip.Addr{dst.Addr()}, time.Minute)
			if !ok {
				t.Fatal("the name has no stand-in")
			}
			send(t, byName, netip.AddrPortFrom(standIn, port))
			try(t, byName, netip.AddrPortFrom(standIn, port), false)
			await(t, "the name is refused", func() bool { return byName.stack.Stats().Denied == 2 || reached.Load() > before })
			if got := reached.Load(); got != before {
				t.Errorf("the host got %d packets or connections", got-before)
			}
		})
	}
	for _, address := range []string{"192.168.7.6", "10.1.2.3"} { // a neighbor, and an address without a route
		if ok, why := NewAllowPublic().
			Allow(t.Context(), Flow{Proto: TCP, Dst: netip.AddrPortFrom(netip.MustParseAddr(address), port)}); !ok {
			t.Errorf("%s: %s", address, why)
		}
	}
}

// inNetworkNamespace runs this test once more in a network namespace, and as an ordinary user in a user namespace.
func inNetworkNamespace(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v=true")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// setUpMachine gives the namespace its addresses and routes.
func setUpMachine(t *testing.T) {
	t.Helper()
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	card := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "card"}, PeerName: "peer"}
	if err := netlink.LinkAdd(card); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("SKIPPED: this kernel has no veth interfaces")
	} else if err != nil {
		t.Fatal(err)
	}
	prefix := func(text string) *net.IPNet {
		p := netip.MustParsePrefix(text)
		return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
	}
	rule := netlink.NewRule()
	rule.Family, rule.Dst, rule.Table = unix.AF_INET, prefix("192.0.2.0/24"), 100
	for _, err := range []error{
		netlink.LinkSetUp(lo), netlink.LinkSetUp(card),
		netlink.AddrAdd(card, &netlink.Addr{IPNet: prefix("192.168.7.5/24"), Broadcast: net.IPv4(192, 168, 7, 255)}),
		netlink.RouteAdd(&netlink.Route{
			LinkIndex: card.Index, Dst: prefix("203.0.113.77/32"), Type: unix.RTN_BROADCAST, Scope: netlink.SCOPE_LINK,
			Table: unix.RT_TABLE_LOCAL,
		}),
		localRoute(lo, prefix("198.51.100.0/24"), unix.RT_TABLE_LOCAL),
		localRoute(lo, prefix("192.0.2.0/24"), rule.Table),
		netlink.RuleAdd(rule),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func localRoute(lo netlink.Link, dst *net.IPNet, table int) error {
	return netlink.RouteAdd(&netlink.Route{
		LinkIndex: lo.Attrs().Index, Dst: dst, Src: net.IPv4(192, 168, 7, 5), Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST,
		Table: table,
	})
}

// serveAll listens on all addresses, for TCP and UDP on one port. reached counts connections and datagrams.
func serveAll(t *testing.T) (port uint16, reached *atomic.Int64) {
	t.Helper()
	reached = &atomic.Int64{}
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(listener.Addr().String())
	packets, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			_ = conn.Close()
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			if _, _, err := packets.ReadFrom(make([]byte, 16)); err != nil {
				return
			}
			reached.Add(1)
		}
	}()
	t.Cleanup(func() {
		_ = errors.Join(listener.Close(), packets.Close())
		providertest.Receive(t, done)
		providertest.Receive(t, done)
	})
	return addr.Port(), reached
}

// machine is a sandbox whose stack dials as in production.
type machine struct {
	sandbox
	stack *Stack
}

func overMachine(t *testing.T, policy Policy, resolvers ...netip.AddrPort) machine {
	t.Helper()
	s, in := connectBy(t, (&net.Dialer{Timeout: 5 * time.Second}).DialContext, policy, resolvers...)
	return machine{in, s}
}

// send sends a datagram from inside.
func send(t *testing.T, in machine, dst netip.AddrPort) {
	t.Helper()
	if _, err := in.dialUDP(t, dst).Write([]byte("x")); err != nil {
		t.Error(err)
	}
}

// try connects from inside.
func try(t *testing.T, in machine, dst netip.AddrPort, connects bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := in.dial(ctx, dst)
	if err == nil {
		_ = conn.Close()
	}
	if connects != (err == nil) {
		t.Errorf("a connection to %s: %v", dst, err)
	}
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
