//go:build linux

package netstack

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
)

// maxGreeting bounds what is read of a connection to see whom it asks, in bytes: crypto/tls takes no longer hello.
const maxGreeting = 128 << 10

// protocol is what a connection speaks, as far as its first bytes tell.
type protocol int

const (
	// speaksOther is what names no host, or nothing that is known here.
	speaksOther protocol = iota
	speaksTLS
	// speaksHTTP is a request of HTTP/1, or looks like one.
	speaksHTTP
	// speaksSSH is SSH if the server speaks it, too; one address has one server of it.
	speaksSSH
)

// greeting is what was said first on a connection.
type greeting struct {
	protocol protocol
	host     string // of a TLS client's hello
	said     []byte
}

// replay reads what was said, and then what follows.
func replay(said []byte, rest io.Reader) io.Reader {
	return io.MultiReader(bytes.NewReader(said), rest)
}

// overhear reads the beginning of a connection until it is seen what it is, or nothing more comes.
func overhear(conn net.Conn) greeting {
	var g greeting
	buffer := make([]byte, 4<<10)
	for {
		n, err := conn.Read(buffer)
		g.said = append(g.said, buffer[:n]...)
		known := false
		if g.protocol, known = speaks(g.said); known || err != nil {
			break
		}
	}
	if g.protocol == speaksTLS {
		g.host = hello(&g.said, conn)
	}
	return g
}

// speaks tells a protocol by the first bytes of a connection; false means that more are needed.
func speaks(said []byte) (protocol, bool) {
	const longestMethod = 20
	switch {
	case len(said) == 0:
		return speaksOther, false
	case said[0] == 0x16: // a TLS handshake record (RFC 8446, 5.1)
		return speaksTLS, true
	case bytes.HasPrefix(said, []byte(sshPrefix)):
		return speaksSSH, true
	}
	for i, c := range said {
		switch {
		case c == ' ' && i > 0:
			return speaksHTTP, true
		case c < 'A' || c > 'Z' || i == longestMethod:
			return speaksOther, true
		}
	}
	return speaksOther, false
}

// sshPrefix begins the line by which both ends of SSH name themselves, unasked (RFC 4253, 4.2).
const sshPrefix = "SSH-"

// identified reads what a server says first, and whether it names itself one of SSH; there may be other lines before
// that.
func identified(server io.Reader) (said []byte, ssh bool) {
	const longest = 8 << 10
	for buffer := make([]byte, 1<<10); len(said) < longest; {
		n, err := server.Read(buffer)
		said = append(said, buffer[:n]...)
		if bytes.HasPrefix(said, []byte(sshPrefix)) || bytes.Contains(said, []byte("\n"+sshPrefix)) {
			return said, true
		}
		if err != nil {
			break
		}
	}
	return said, false
}

// hello reads a TLS client's hello, of which said is the beginning, and returns the name that it asks for. The bytes
// read are added to said.
func hello(said *[]byte, conn net.Conn) (host string) {
	var more bytes.Buffer
	first := bytes.NewReader(*said)
	rest := io.TeeReader(io.LimitReader(conn, maxGreeting), &more)
	server := tls.Server(&listening{conn, io.MultiReader(first, rest)}, &tls.Config{
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			host = info.ServerName
			return nil, errHeard
		},
	})
	_ = server.HandshakeContext(context.Background())
	*said = append(*said, more.Bytes()...)
	return host
}

var errHeard = errors.New("the hello was heard")

// listening is an end of a connection that says nothing and stays open.
type listening struct {
	net.Conn
	from io.Reader
}

func (l *listening) Read(b []byte) (int, error)  { return l.from.Read(b) }
func (l *listening) Write(b []byte) (int, error) { return len(b), nil }
func (l *listening) Close() error                { return nil }

// replayed is a connection of which something was read already.
type replayed struct {
	net.Conn
	reader io.Reader
}

func (r *replayed) Read(b []byte) (int, error) { return r.reader.Read(b) }

// CloseWrite passes on the end of one direction.
func (r *replayed) CloseWrite() error { return closeWrite(r.Conn) }
