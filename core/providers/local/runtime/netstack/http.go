//go:build linux

package netstack

import (
	"cmp"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// maxHeader bounds the header of a request in bytes, because it uses memory of this process.
const maxHeader = 64 << 10

// serveHTTP forwards the requests of an unencrypted connection to flow.Name until the connection ends. It parses and
// rewrites each request, so that none can reach another host, however the server parses it. outside is the first
// connection to the name.
func (s *Stack) serveHTTP(ctx context.Context, inside, outside net.Conn, flow Flow) {
	first := make(chan net.Conn, 1)
	first <- outside
	transport := &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 1,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			select {
			case conn := <-first:
				return conn, nil
			default:
			}
			conn, _, err := s.dialName(ctx, flow)
			return conn, err
		},
	}
	defer transport.CloseIdleConnections()
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: quiet, Rewrite: asItCame}
	conn := &counted{Conn: inside, counters: &s.counters, over: make(chan struct{})}
	end := sync.OnceFunc(func() { close(conn.over) })
	var understood, hijacked atomic.Bool
	server := &http.Server{
		ErrorLog: quiet, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: greetingPatience, BaseContext: func(
			net.Listener,
		) context.Context {
			return ctx
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			hijacked.CompareAndSwap(false, state == http.StateHijacked)
			if state == http.StateClosed {
				end()
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			understood.Store(true)
			if !asks(r, flow.Name) {
				s.refuse(flow, "a request to "+flow.Name+" asks for "+strconv.Quote(cmp.Or(r.URL.Opaque, r.Host)))
				w.Header().Set("Connection", "close")
				http.Error(w, "the sandbox's network policy does not allow this host here", http.StatusForbidden)
				return
			}
			proxy.ServeHTTP(w, r)
			if hijacked.Load() { // the server no longer tracks it
				end()
			}
		}),
	}
	_ = server.Serve(&single{conn: conn})
	if !understood.Load() {
		s.refuse(flow, unreadable)
	}
}

// asks reports whether a request is for the host name only. An upgrade to HTTP/2 without TLS could reach other hosts.
func asks(r *http.Request, name string) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	// The part after the colon of "x:http://other/" would be forwarded unchanged, and a server would use that host.
	if canonical(host) != name || r.Method == http.MethodConnect || r.URL.Opaque != "" {
		return false
	}
	if upgrade := r.Header.Get("Upgrade"); !strings.EqualFold(upgrade, "websocket") {
		r.Header.Del("Upgrade")
	}
	return true
}

// asItCame reverts the changes of ReverseProxy that are meant for servers of one operator.
func asItCame(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.RawQuery = "http", p.In.Host, p.In.URL.RawQuery
	p.Out.Host = p.In.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := p.In.Header[name]; ok {
			p.Out.Header[name] = values
		}
	}
}

// single is a listener for one connection. It ends with the connection.
type single struct {
	conn     *counted
	accepted atomic.Bool
}

func (l *single) Accept() (net.Conn, error) {
	if l.accepted.CompareAndSwap(false, true) {
		return l.conn, nil
	}
	<-l.conn.over
	return nil, net.ErrClosed
}
func (l *single) Close() error   { return nil }
func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }

// counted counts the bytes of the sandbox's end of a connection. over is closed when no
// goroutine uses the connection.
type counted struct {
	net.Conn
	counters *counters
	over     chan struct{}
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.counters.sent.Add(int64(n))
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.counters.received.Add(int64(n))
	return n, err
}

func (c *counted) CloseWrite() error { return closeWrite(c.Conn) }
