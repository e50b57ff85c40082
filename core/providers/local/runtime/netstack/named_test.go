//go:build linux

package netstack

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"github.com/seed-0724f904/sb/core/providertest"
)

// withList connects a sandbox that may reach the entries of list. All names are served at one address, except for those
// of private.example.
func withList(t *testing.T, list ...string) (*Stack, sandbox) {
	t.Helper()
	policy := NewAllowPublic()
	policy.route = routes("", unix.RTN_UNICAST, "", unix.RTN_UNICAST)
	return connect(t, NewAllowList(policy, list), nameServerOf(t, func(name string) netip.Addr {
		switch name {
		case "private.example.":
			return netip.MustParseAddr("10.1.2.3")
		case "empty.example.":
			return netip.Addr{}
		}
		return elsewhere()
	}))
}

// question queries the gateway's name server.
func question(
	t *testing.T, in sandbox, name string, kind dnsmessage.Type, more ...dnsmessage.Question,
) dnsmessage.Message {
	t.Helper()
	query := dnsmessage.Message{
		Header: dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: append(
			[]dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}}, more...,
		),
	}
	packed, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	c := in.dialUDP(t, netip.AddrPortFrom(GatewayAddr(), dnsPort))
	if _, err := c.Write(packed); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	buffer := make([]byte, 1500)
	n, err := c.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	var answer dnsmessage.Message
	if err := answer.Unpack(buffer[:n]); err != nil || answer.ID != 7 {
		t.Fatalf("%+v, %v", answer, err)
	}
	return answer
}

// addressOf returns the address that the sandbox receives for a name.
func addressOf(t *testing.T, in sandbox, name string) netip.Addr {
	t.Helper()
	answer := question(t, in, name, dnsmessage.TypeA)
	if len(answer.Answers) != 1 {
		t.Fatalf("%s: %+v", name, answer)
	}
	body, ok := answer.Answers[0].Body.(*dnsmessage.AResource)
	if !ok {
		t.Fatalf("%s is a %T", name, answer.Answers[0].Body)
	}
	return netip.AddrFrom4(body.A)
}

// refusals returns the reasons of all refusals, one line each.
func refusals(s *Stack) string {
	var text strings.Builder
	for _, d := range s.Denials() {
		_, _ = fmt.Fprintf(&text, "%s %s: %s\n", d.Flow.Proto, d.Flow.Name, d.Reason)
	}
	return text.String()
}

// awaitRefusal waits until a refused connection is recorded, and returns all. A refusal may be recorded after the
// answer to it.
func awaitRefusal(t *testing.T, s *Stack) string {
	t.Helper()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for refusals(s) == "" {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatal("no connection was refused")
		}
	}
	return refusals(s)
}

func TestStandIns(t *testing.T) {
	_, in := withList(t, "good.example", "*.below.example", "private.example", "empty.example", "10.0.0.0/8")
	good := addressOf(t, in, "good.example.")
	if !standIns().Contains(good) || addressOf(t, in, "GOOD.example.") != good {
		t.Errorf("good.example is %s", good)
	}
	if other := addressOf(t, in, "a.below.example."); other == good || !standIns().Contains(other) {
		t.Errorf("two names have one address, %s", other)
	}
	if private := addressOf(t, in, "private.example."); private != netip.MustParseAddr("10.1.2.3") {
		t.Errorf("a name whose address is listed is %s", private)
	}
	for name, want := range map[string]dnsmessage.RCode{
		"bad.example.": dnsmessage.RCodeNameError, "below.example.": dnsmessage.RCodeNameError,
		"empty.example.": dnsmessage.RCodeSuccess,
	} {
		if answer := question(t, in, name, dnsmessage.TypeA); answer.RCode != want || len(answer.Answers) != 0 {
			t.Errorf("%s: %+v", name, answer)
		}
	}
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeAAAA, typeHTTPS, typeSVCB} {
		if answer := question(t, in, "good.example.", kind); answer.RCode != dnsmessage.RCodeSuccess ||
			len(answer.Answers) != 0 {
			t.Errorf("a way around the stand-in: %+v", answer)
		}
	}
	hidden := dnsmessage.Question{
		Name: dnsmessage.MustNewName("secret.bad.example."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
	}
	if answer := question(t, in, "good.example.", dnsmessage.TypeA, hidden); answer.RCode != dnsmessage.RCodeFormatError {
		t.Errorf("a second question: %+v", answer)
	}
}

// clientHello returns the first message of a TLS client.
func clientHello(t testing.TB, name string) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() {
		_ = tls.Client(theirs, &tls.Config{ServerName: name, InsecureSkipVerify: name == ""}).HandshakeContext(t.Context())
		_ = theirs.Close()
	}()
	_ = ours.SetDeadline(time.Now().Add(10 * time.Second))
	buffer := make([]byte, 16<<10)
	n, err := ours.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	_ = ours.Close()
	return buffer[:n]
}

// Two names at one address: one is listed.
func TestOnlyAllowedNameIsReached(t *testing.T) {
	var received atomic.Int64
	server := listen(t, func(c net.Conn) {
		buffer := make([]byte, 16<<10)
		n, _ := c.Read(buffer)
		received.Add(int64(n))
		_, _ = fmt.Fprintf(c, "heard %d bytes", n)
	})
	s, in := withList(t, "good.example")
	good := netip.AddrPortFrom(addressOf(t, in, "good.example."), server.Port())
	say := func(pieces ...[]byte) string {
		t.Helper()
		c, err := in.dial(t.Context(), good)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		for _, piece := range pieces {
			_, _ = c.Write(piece)
			time.Sleep(time.Millisecond) // so that they come one by one; together is right, too
		}
		got, _ := io.ReadAll(c)
		return string(got)
	}
	hello, long := clientHello(t, "good.example"), clientHello(t, "GOOD.example")
	for what, sent := range map[string][][]byte{
		"TLS": {hello}, "TLS in pieces": {long[:1], long[1:7], long[7:200], long[200:]},
	} {
		if got := say(sent...); !strings.HasPrefix(got, "heard ") {
			t.Errorf("%s: %q", what, got)
		}
	}
	before := received.Load()
	const nameless, unseen = "asks for no name\n", "this protocol does not name its server"
	for what, test := range map[string]struct{ sent, refusal string }{
		"another name":        {string(clientHello(t, "other.example")), "asks for other.example\n"},
		"no name":             {string(clientHello(t, "")), nameless},
		"a name below":        {string(clientHello(t, "a.good.example")), "asks for a.good.example\n"},
		"broken TLS":          {"\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff", nameless},
		"an empty line first": {"\r\nGET / HTTP/1.1\r\nHost: other.example\r\n\r\n", unseen},
		"small letters":       {"get / HTTP/1.1\r\nHost: other.example\r\n\r\n", unseen},
		"mail":                {"EHLO x\r\n", unseen}, "SSL 2": {"\x80\x2e\x01\x00\x02", unseen},
		"zeros": {string(make([]byte, 100)), unseen},
	} {
		if got := say([]byte(test.sent)); strings.Contains(got, "heard") {
			t.Errorf("%s: %q", what, got)
		}
		if all := refusals(s); !strings.Contains(all, test.refusal) {
			t.Errorf("%s: %q is not among the refusals:\n%s", what, test.refusal, all)
		}
	}
	if got := received.Load(); got != before {
		t.Errorf("%d bytes came through that should not", got-before)
	}
	for what, dst := range map[string]netip.Addr{
		"the address itself": elsewhere(), "a stand-in of nothing": netip.MustParseAddr("198.19.200.1"),
	} {
		if c, err := in.dial(t.Context(), netip.AddrPortFrom(dst, server.Port())); err == nil {
			_ = c.Close()
			t.Errorf("%s is reached", what)
		}
	}
	udp := in.dialUDP(t, good)
	_, _ = udp.Write([]byte("quic"))
	for deadline := time.Now().Add(time.Minute); !strings.Contains(
		refusals(s), "udp good.example: only TCP",
	); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("UDP to a name is not refused: %s", refusals(s))
		}
	}
}

// An HTTP server would accept this as a request. So a connection that begins like SSH only reaches SSH servers.
func TestSSHIsKnownByItsServer(t *testing.T) {
	const sent = "SSH-2.0-x / HTTP/1.1\r\nHost: other.example\r\n\r\n"
	for banner, passes := range map[string]bool{
		"SSH-2.0-y\r\n": true, "welcome\r\nSSH-2.0-y\r\n": true, "": false, "HTTP/1.1 408 Request Timeout\r\n\r\n": false,
		"x SSH-2.0-y\r\n": false,
	} {
		received := make(chan string, 1)
		server := listen(t, func(c net.Conn) {
			_, _ = io.WriteString(c, banner)
			_ = closeWrite(c)
			all, _ := io.ReadAll(c)
			received <- string(all)
		})
		s, in := withList(t, "good.example")
		c := dialGood(t, in, server.Port())
		for _, piece := range []string{sent[:2], sent[2:]} {
			if _, err := io.WriteString(c, piece); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.(*gonet.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(c)
		if !passes {
			if all := providertest.Receive(t, received); all != "" || len(got) > 0 ||
				!strings.Contains(refusals(s), unreadable) {
				t.Errorf("a server that says %q hears %q, the sandbox %q; refused is %q", banner, all, got, refusals(s))
			}
			continue
		}
		if all := providertest.Receive(t, received); all != sent || string(got) != banner || refusals(s) != "" {
			t.Errorf("a server that says %q hears %q, the sandbox %q; refused is %q", banner, all, got, refusals(s))
		}
	}
}

func TestDomainWithPrivateAddressIsRefused(t *testing.T) {
	s, in := withList(t, "private.example")
	c, err := in.dial(t.Context(), netip.AddrPortFrom(addressOf(t, in, "private.example."), 80))
	if err == nil {
		_ = c.Close()
		t.Fatal("a private address is reached by name")
	}
	if all := refusals(s); !strings.Contains(
		all, "private.example is 10.1.2.3: the domain leads into a private network",
	) {
		t.Errorf("the refusals are %s", all)
	}
}

// Programs keep an address for longer than the name has it.
func TestStandInsAreResolvedAgain(t *testing.T) {
	server := listen(t, echo)
	s, in := withList(t, "good.example")
	standIn := addressOf(t, in, "good.example.")
	known := func(change func(*named)) {
		s.names.mu.Lock()
		defer s.names.mu.Unlock()
		change(s.names.byName["good.example"])
	}
	known(func(n *named) { n.outside = []netip.Addr{netip.MustParseAddr("203.0.113.99")} })
	if _, err := in.dial(t.Context(), netip.AddrPortFrom(standIn, server.Port())); err == nil {
		t.Fatal("the address was not believed")
	}
	known(func(n *named) { n.until = time.Now().Add(-time.Second) })
	c, err := in.dial(t.Context(), netip.AddrPortFrom(standIn, server.Port()))
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

func TestStandInsAreBounded(t *testing.T) {
	s, in := withList(t, "*.example")
	first := addressOf(t, in, "one.example.")
	again, inAgain := withList(t, "*.example")
	again.TakeNames(s.Names())
	if two := addressOf(t, inAgain, "two.example."); two == first {
		t.Errorf("%s stands for two names", two)
	}
	if addressOf(t, inAgain, "one.example.") != first {
		t.Error("in a copy the name has another address")
	}
	var gaps names
	taken := netip.MustParseAddr("198.19.0.2")
	gaps.add("one.example", &named{standIn: taken})
	if addr, ok := gaps.learn("two.example", nil, 0); !ok || addr == taken {
		t.Errorf("%s stands for two names", addr)
	}
	for i := len(s.Names()); i < maxNames; i++ {
		if _, ok := s.names.learn(fmt.Sprintf("%d.example", i), nil, 0); !ok {
			t.Fatalf("name %d is one too many", i)
		}
	}
	if answer := question(t, in, "more.example.", dnsmessage.TypeA); answer.RCode != dnsmessage.RCodeServerFailure {
		t.Errorf("there is no bound: %+v", answer)
	}
}

func TestNamesWhenThePolicyChanges(t *testing.T) {
	server := listen(t, func(c net.Conn) {
		buffer := make([]byte, 16<<10)
		for {
			n, err := c.Read(buffer)
			if err != nil {
				return
			}
			_, _ = c.Write(buffer[:n])
		}
	})
	s, in := withList(t, "good.example", "other.example")
	good := netip.AddrPortFrom(addressOf(t, in, "good.example."), server.Port())
	other := netip.AddrPortFrom(addressOf(t, in, "other.example."), server.Port())
	open := func(dst netip.AddrPort, sent string) net.Conn {
		t.Helper()
		c, err := in.dial(t.Context(), dst)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, len(sent))); err != nil {
			t.Fatal(err)
		}
		return c
	}
	stays := open(good, string(clientHello(t, "good.example")))
	refused := open(other, string(clientHello(t, "other.example")))
	public := NewAllowPublic()
	public.route = routes("", unix.RTN_UNICAST, "", unix.RTN_UNICAST)
	s.SetPolicy(NewAllowList(public, []string{"good.example"}))
	if _, err := refused.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the connection to the name that is no longer listed: %v", err)
	}
	if _, err := io.WriteString(stays, "x"); err != nil {
		t.Error(err)
	}
	if _, err := stays.Read(make([]byte, 1)); err != nil {
		t.Errorf("the connection to the name that is still listed: %v", err)
	}
	if c, err := in.dial(t.Context(), other); err == nil {
		_ = c.Close()
		t.Error("the name that is no longer listed is reached")
	}
	// An address that a program remembers stays valid under a wider policy.
	s.SetPolicy(public)
	open(other, "EHLO x\r\n")
	if addressOf(t, in, "good.example.") != elsewhere() {
		t.Error("names have stand-ins where each address is allowed")
	}
}

// backend serves HTTP for all names of an address. requested returns the name of the last request.
func backend(t *testing.T) (port uint16, requested func() string) {
	t.Helper()
	var mu sync.Mutex
	var log strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		_, _ = fmt.Fprintf(&log, "%s %s%s %s;", r.Method, r.Host, r.URL, r.Header.Get("X-Forwarded-For"))
		mu.Unlock()
		if r.Header.Get("Upgrade") == "" {
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "hello %s", body)
			return
		}
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(
			conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"),
		)
		line, _ := both.ReadString('\n')
		_, _ = io.WriteString(conn, "you said "+line)
	}))
	t.Cleanup(server.Close)
	return outside(server.Listener.Addr()).Port(), func() string { mu.Lock(); defer mu.Unlock(); return log.String() }
}

func TestEachRequestAsksTheName(t *testing.T) {
	const get = "GET /a?b=%zz;c HTTP/1.1\r\nHost: good.example\r\n\r\n"
	for what, test := range map[string]struct {
		sent      string
		answer    string // contained in the response
		requested string // of the server
		refusal   string
	}{
		"one": {
			strings.Replace(get, "\r\n\r\n", "\r\nX-Forwarded-For: me\r\nConnection: close\r\n\r\n", 1), "hello ",
			"GET good.example/a?b=%zz;c me;", "",
		},
		"with a port": {
			"GET / HTTP/1.1\r\nHost: Good.Example.:80\r\nConnection: close\r\n\r\n", "hello ", "GET Good.Example.:80/ ;", "",
		},
		"with a body": {
			"POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody", "hello body",
			"POST good.example/ ;", "",
		},
		"the second": {
			get + "GET /b HTTP/1.1\r\nHost: other.example\r\n\r\n", "403 Forbidden", "GET good.example/a?b=%zz;c ;",
			`"other.example"`,
		},
		"in the body": {
			"POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost: other.example\r\n\r\n",
			"403 Forbidden", "POST good.example/ ;", `"other.example"`,
		},
		"two lengths": {
			"POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\n", "400 Bad Request", "",
			"this protocol",
		},
		"two hosts": {
			"GET / HTTP/1.1\r\nHost: good.example\r\nHost: other.example\r\n\r\n", "400 Bad Request", "", "this protocol",
		},
		"an absolute URL": {
			"GET http://other.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n", "403 Forbidden", "", `"other.example"`,
		},
		"an opaque URL": {
			"GET x:http://other.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n", "403 Forbidden", "",
			`asks for "http://other.example/"`,
		},
		"no host": {"GET / HTTP/1.0\r\n\r\n", "403 Forbidden", "", `""`},
		"a tunnel": {
			"CONNECT good.example:443 HTTP/1.1\r\nHost: good.example\r\n\r\n", "403 Forbidden", "", `"good.example:443"`,
		},
		"HTTP/2": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", "", "good.example"},
		"up to HTTP/2": {
			"GET / HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: " +
				"h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
			"hello ", "GET good.example/ ;", "",
		},
		"a web socket": {
			"GET / HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "you said hey\n",
			"GET good.example/ ;", "",
		},
		"another method": {"FROB / HTTP/1.1\r\nHost: other.example\r\n\r\n", "403 Forbidden", "", `"other.example"`},
	} {
		t.Run(what, func(t *testing.T) {
			port, requested := backend(t)
			s, in := withList(t, "good.example")
			c := dialGood(t, in, port)
			if _, err := io.WriteString(c, test.sent); err != nil {
				t.Fatal(err)
			}
			from := bufio.NewReader(c)
			if strings.Contains(test.sent, "websocket") {
				if line, err := from.ReadString('\n'); err != nil || !strings.Contains(line, " 101 ") {
					t.Fatalf("%q, %v", line, err)
				}
				_, _ = io.WriteString(c, "hey\n")
			}
			got, err := io.ReadAll(from)
			if err != nil || !bytes.Contains(got, []byte(test.answer)) || requested() != test.requested {
				t.Errorf("it answers %q, %v; the server was asked %q", got, err, requested())
			}
			if test.refusal == "" {
				if all := refusals(s); all != "" {
					t.Errorf("refused is %q", all)
				}
			} else if all := awaitRefusal(t, s); !strings.Contains(all, test.refusal) {
				t.Errorf("refused is %q", all)
			}
		})
	}
}

// dialGood connects to a port of good.example for as long as the test runs, 10 s at most.
func dialGood(t *testing.T, in sandbox, port uint16) net.Conn {
	t.Helper()
	c, err := in.dial(t.Context(), netip.AddrPortFrom(addressOf(t, in, "good.example."), port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

func TestManyRequestsOnOneConnection(t *testing.T) {
	port, _ := backend(t)
	s, in := withList(t, "good.example")
	c := dialGood(t, in, port)
	answers := bufio.NewReader(c)
	for i := range 5 {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: good.example\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || string(text) != "hello " {
			t.Errorf("request %d: %q, %v", i, text, err)
		}
	}
	if stats := s.Stats(); stats.Connections != 1 || stats.Sent == 0 || stats.Received == 0 {
		t.Errorf("counted are %+v", stats)
	}
	s.SetPolicy(only(UDP))
	if _, err := answers.ReadByte(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a policy that refuses it: %v", err)
	}
}

// bytesConn is a connection on which only these bytes come.
type bytesConn struct {
	net.Conn
	io.Reader
}

func (b bytesConn) Read(p []byte) (int, error) { return b.Reader.Read(p) }

func FuzzReadGreeting(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: pypi.org:80\r\n\r\n"))
	f.Add([]byte("SSH-2.0-x\r\n"))
	f.Add([]byte("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"))
	f.Add(clientHello(f, "good.example"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		rest := bytes.NewReader(sent)
		g := readGreeting(bytesConn{Reader: rest})
		if all, err := io.ReadAll(replay(g.data, rest)); err != nil || !bytes.Equal(all, sent) {
			t.Errorf("the next bytes are %q, %v", all, err)
		}
		if g.host != "" && g.protocol != speaksTLS {
			t.Errorf("%+v", g)
		}
	})
}
