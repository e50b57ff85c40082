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

// maxGreeting bounds the bytes that are read to find the requested host. crypto/tls accepts no longer hello.
const maxGreeting = 128 << 10

// protocol is the protocol of a connection, according to its first bytes.
type protocol int

const (
	// speaksOther is a protocol without a host name, or an unknown one.
	speaksOther protocol = iota
	speaksTLS
	// speaksHTTP looks like a request of HTTP/1.
	speaksHTTP
	// speaksSSH is SSH if the server also uses it. One address has only one SSH server.
	speaksSSH
)

// greeting has the first bytes of a connection.
type greeting struct {
	protocol protocol
	host     string // of a TLS client's hello
	data     []byte
}

// replay returns a reader of data and then rest.
func replay(data []byte, rest io.Reader) io.Reader {
	return io.MultiReader(bytes.NewReader(data), rest)
}

// readGreeting reads the beginning of a connection until its protocol is known, or the connection ends.
func readGreeting(conn net.Conn) greeting {
	var g greeting
	buffer := make([]byte, 4<<10)
	for {
		n, err := conn.Read(buffer)
		g.data = append(g.data, buffer[:n]...)
		known := false
		if g.protocol, known = speaks(g.data); known || err != nil {
			break
		}
	}
	if g.protocol == speaksTLS {
		g.host = hello(&g.data, conn)
	}
	return g
}

// speaks returns the protocol for the first bytes of a connection. false means that it needs more bytes.
func speaks(data []byte) (protocol, bool) {
	const longestMethod = 20
	switch {
	case len(data) == 0:
		return speaksOther, false
	case data[0] == 0x16: // a TLS handshake record (RFC 8446, 5.1)
		return speaksTLS, true
	case bytes.HasPrefix(data, []byte(sshPrefix)):
		return speaksSSH, true
	}
	for i, c := range data {
		switch {
		case c == ' ' && i > 0:
			return speaksHTTP, true
		case c < 'A' || c > 'Z' || i == longestMethod:
			return speaksOther, true
		}
	}
	return speaksOther, false
}

// sshPrefix is the prefix of the identification line that both ends of SSH send first (RFC 4253, 4.2).
const sshPrefix = "SSH-"

// identified reads the first bytes of a server, and reports whether they contain the identification of SSH. Other lines
// may come before it.
func identified(server io.Reader) (data []byte, ssh bool) {
	const longest = 8 << 10
	for buffer := make([]byte, 1<<10); len(data) < longest; {
		n, err := server.Read(buffer)
		data = append(data, buffer[:n]...)
		if bytes.HasPrefix(data, []byte(sshPrefix)) || bytes.Contains(data, []byte("\n"+sshPrefix)) {
			return data, true
		}
		if err != nil {
			break
		}
	}
	return data, false
}

// hello reads a TLS client's hello, which begins with data, and returns the server name in it. It appends the bytes
// that it reads to data.
func hello(data *[]byte, conn net.Conn) (host string) {
	var more bytes.Buffer
	first := bytes.NewReader(*data)
	rest := io.TeeReader(io.LimitReader(conn, maxGreeting), &more)
	server := tls.Server(&listening{conn, io.MultiReader(first, rest)}, &tls.Config{
		GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			host = info.ServerName
			return nil, errHelloRead
		},
	})
	_ = server.HandshakeContext(context.Background())
	*data = append(*data, more.Bytes()...)
	return host
}

var errHelloRead = errors.New("the hello was read")

// listening is a connection that only reads. It discards writes and ignores Close.
type listening struct {
	net.Conn
	from io.Reader
}

func (l *listening) Read(b []byte) (int, error)  { return l.from.Read(b) }
func (l *listening) Write(b []byte) (int, error) { return len(b), nil }
func (l *listening) Close() error                { return nil }

// replayed is a connection whose first bytes were read already. reader returns them again.
type replayed struct {
	net.Conn
	reader io.Reader
}

func (r *replayed) Read(b []byte) (int, error) { return r.reader.Read(b) }

// CloseWrite closes the writing side of the connection.
func (r *replayed) CloseWrite() error { return closeWrite(r.Conn) }
