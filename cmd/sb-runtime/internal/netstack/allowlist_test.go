//go:build linux

package netstack

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func TestAllowList(t *testing.T) {
	list := NewAllowList(NewAllowPublic(), []string{"192.0.2.0/24", "Example.org", "*.below.example", "169.254.0.0/16", "127.0.0.0/8"})
	now := time.Now()
	list.now = func() time.Time { return now }
	ask := func(name string) bool {
		allowed, _ := list.Allow(context.Background(), Flow{Proto: DNS, Dst: netip.AddrPortFrom(GatewayAddr(), 53), Name: name})
		return allowed
	}
	connect := func(addr string) bool {
		allowed, _ := list.Allow(context.Background(), Flow{Proto: TCP, Dst: netip.AddrPortFrom(netip.MustParseAddr(addr), 443)})
		return allowed
	}
	for name, want := range map[string]bool{
		"example.org": true, "EXAMPLE.ORG": true, "www.example.org": false, "notexample.org": false, "example.org.evil": false,
		"a.below.example": true, "a.b.below.example": true, "below.example": false, "xbelow.example": false, "": false,
	} {
		if ask(name) != want {
			t.Errorf("asking for %q is allowed: %v", name, !want)
		}
	}
	for addr, want := range map[string]bool{
		"192.0.2.7": true, "192.0.3.7": false, "198.51.100.9": false,
		// What no sandbox may reach no list opens.
		"169.254.169.254": false, "127.0.0.1": false,
	} {
		if connect(addr) != want {
			t.Errorf("connecting to %s is allowed: %v", addr, !want)
		}
	}

	name := dnsmessage.MustNewName("example.org.")
	answer := dnsmessage.Message{
		Header: dnsmessage.Header{Response: true},
		Answers: []dnsmessage.Resource{
			{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: 5}, Body: &dnsmessage.AResource{A: [4]byte{198, 51, 100, 9}}},
			{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: 5}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}},
			{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: 5}, Body: &dnsmessage.AResource{A: [4]byte{10, 1, 2, 3}}},
		},
	}
	packed, err := answer.Pack()
	if err != nil {
		t.Fatal(err)
	}
	list.Learn(packed)
	list.Learn([]byte("no answer"))
	if !connect("198.51.100.9") || connect("198.51.100.10") || connect("127.0.0.1") || connect("10.1.2.3") {
		t.Error("an answer's address is not what may be connected to, and nothing else")
	}
	now = now.Add(learnedFor + time.Second)
	if connect("198.51.100.9") {
		t.Error("an answer holds for ever")
	}
}

func TestAllowListIsBounded(t *testing.T) {
	list := NewAllowList(NewAllowPublic(), []string{"*"})
	name := dnsmessage.MustNewName("example.org.")
	for i := range 2 * learnedMost {
		answer := dnsmessage.Message{Answers: []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: [4]byte{198, 51, byte(i >> 8), byte(i)}},
		}}}
		packed, err := answer.Pack()
		if err != nil {
			t.Fatal(err)
		}
		list.Learn(packed)
	}
	if len(list.learned) > learnedMost {
		t.Errorf("%d addresses are known", len(list.learned))
	}
}
