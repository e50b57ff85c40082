//go:build linux

package netstack

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// silentResolver receives queries and never answers. queries counts them.
func silentResolver(t *testing.T) (addr netip.AddrPort, queries *atomic.Int64) {
	t.Helper()
	packets, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	queries = &atomic.Int64{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for buffer := make([]byte, 2048); ; queries.Add(1) {
			if _, err := packets.Read(buffer); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { _ = packets.Close(); wg.Wait() })
	return packets.LocalAddr().(*net.UDPAddr).AddrPort(), queries
}

func questionFor(t *testing.T, code dnsmessage.OpCode) []byte {
	t.Helper()
	query := dnsmessage.Message{
		Header: dnsmessage.Header{ID: 7, OpCode: code, RecursionDesired: true},
		Questions: []dnsmessage.Question{
			{Name: dnsmessage.MustNewName("good.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
		},
	}
	packed, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// A resolver that trusts this machine would execute other requests, too, for instance change a zone.
func TestOnlyQuestionsAreForwarded(t *testing.T) {
	resolver, queries := silentResolver(t)
	_, in := connect(t, policyFunc(allowAll), resolver)
	c := in.dialUDP(t, netip.AddrPortFrom(GatewayAddr(), dnsPort))
	const notify, update = 4, 5 // RFC 1996, RFC 2136
	for _, code := range []dnsmessage.OpCode{1, 2, notify, update, 15} {
		if _, err := c.Write(questionFor(t, code)); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
		buffer := make([]byte, 512)
		n, err := c.Read(buffer)
		if err != nil {
			t.Errorf("operation %d: %v", code, err)
			continue
		}
		var answer dnsmessage.Message
		if err := answer.Unpack(buffer[:n]); err != nil || answer.RCode != dnsmessage.RCodeNotImplemented ||
			answer.OpCode != code {
			t.Errorf("operation %d: %+v, %v", code, answer, err)
		}
	}
	if n := queries.Load(); n > 0 {
		t.Errorf("the resolver heard %d messages", n)
	}
}

// Each pending query costs the supervisor a socket and memory, which no limit of the sandbox includes.
func TestQuestionsAreBounded(t *testing.T) {
	resolver, queries := silentResolver(t)
	_, in := connect(t, policyFunc(allowAll), resolver)
	query := questionFor(t, 0)
	const sockets, each = 40, 50
	for range sockets {
		c := in.dialUDP(t, netip.AddrPortFrom(GatewayAddr(), dnsPort))
		for range each {
			if _, err := c.Write(query); err != nil {
				t.Fatal(err)
			}
		}
	}
	for deadline, before := time.Now().Add(time.Minute), int64(-1); ; { // until no more come
		time.Sleep(100 * time.Millisecond)
		now := queries.Load()
		if now > 0 && now == before || time.Now().After(deadline) {
			break
		}
		before = now
	}
	if n := queries.Load(); n == 0 || n > maxQuestions {
		t.Errorf("%d questions are asked at the same time, at most %d should be", n, maxQuestions)
	}
}
