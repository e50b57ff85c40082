package modaltest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-0724f904/sb/core"
)

const (
	// connectPort is the port for requests whose token names none.
	connectPort = 8080
	// connectQuery is the query parameter for the token of a client that cannot set a header.
	connectQuery = "_modal_connect_token"
	// userData is the header with the token's metadata for the sandbox.
	userData = "X-Verified-User-Data"
)

// connector forwards HTTP requests with a connect token to the token's sandbox.
type connector struct {
	server *Server
	start  sync.Once
	err    error
	url    string
	http   *http.Server

	mu     sync.Mutex
	tokens map[string]connection
}

type connection struct {
	box      *sandbox
	port     int
	metadata string
}

// SandboxCreateConnectToken creates a token.
func (s *Server) SandboxCreateConnectToken(
	_ context.Context, r *pb.SandboxCreateConnectTokenRequest,
) (*pb.SandboxCreateConnectTokenResponse, error) {
	box, err := s.sandbox(r.GetSandboxId())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	live := box.live()
	s.mu.Unlock()
	if !live {
		return nil, status.Error(codes.FailedPrecondition, "the Sandbox has already finished")
	}
	c := &s.connector
	c.start.Do(func() { c.err = c.listen(s) })
	if c.err != nil {
		return nil, status.Error(codes.Unavailable, c.err.Error())
	}
	made := connection{box, connectPort, r.GetUserMetadata()}
	if r.HasPort() {
		made.port = int(r.GetPort())
	}
	token := randomText(v1Alphabet, 40)
	c.mu.Lock()
	c.tokens[token] = made
	c.mu.Unlock()
	return pb.SandboxCreateConnectTokenResponse_builder{Url: c.url, Token: token}.Build(), nil
}

// SandboxCreateConnectTokenV2 is SandboxCreateConnectToken.
func (s *Server) SandboxCreateConnectTokenV2(
	ctx context.Context, r *pb.SandboxCreateConnectTokenRequest,
) (*pb.SandboxCreateConnectTokenResponse, error) {
	return s.SandboxCreateConnectToken(ctx, r)
}

// listen starts to accept requests on a separate port.
func (c *connector) listen(s *Server) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(s.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.server, c.url, c.tokens = s, "http://"+listener.Addr().String(), map[string]connection{}
	c.http = &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second}
	s.work.Go(func() { _ = c.http.Serve(listener) })
	context.AfterFunc(s.ctx, func() { _ = c.http.Close() })
	return nil
}

// ServeHTTP forwards one request.
func (c *connector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	token := query.Get(connectQuery)
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		token = bearer
	}
	c.mu.Lock()
	to, known := c.tokens[token]
	c.mu.Unlock()
	if !known {
		http.Error(w, "no valid connect token", http.StatusUnauthorized)
		return
	}
	if !admits(to.box.definition, r.RemoteAddr) {
		http.Error(w, "this address may not connect", http.StatusForbidden)
		return
	}
	query.Del(connectQuery)
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(
		ctx context.Context, _, _ string,
	) (net.Conn, error) {
		return c.server.dial(ctx, to.box, to.port)
	}}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(out *httputil.ProxyRequest) {
		out.Out.URL.Scheme, out.Out.URL.Host, out.Out.URL.RawQuery = "http", "sandbox", query.Encode()
		out.Out.Header.Del("Authorization")
		out.Out.Header.Set(userData, to.metadata)
		out.SetXForwarded()
	}}
	proxy.ServeHTTP(w, r)
}

// activeConn is a connection that keeps its sandbox from being idle.
type activeConn struct {
	net.Conn
	over func()
}

// Close implements net.Conn.
func (c activeConn) Close() error {
	c.over()
	return c.Conn.Close()
}

// dial connects to a port of a sandbox once the sandbox exists. It dials through the backend or, if the backend cannot
// do that, the published address.
func (s *Server) dial(ctx context.Context, box *sandbox, port int) (net.Conn, error) {
	if err := box.await(ctx); err != nil {
		return nil, err
	}
	if forwarder, ok := s.opts.Backend.(core.PortForwarder); ok {
		conn, err := forwarder.DialPort(ctx, box.backend.ID, port)
		if err != nil {
			return nil, err
		}
		s.active(box, 1, false)
		return activeConn{conn, sync.OnceFunc(func() { s.active(box, -1, false) })}, nil
	}
	s.mu.Lock()
	address := ""
	for _, mapping := range box.backend.Ports {
		if mapping.Sandbox == port {
			address = mapping.Address
		}
	}
	s.mu.Unlock()
	if address == "" {
		return nil, errors.New("the port is not published")
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}
