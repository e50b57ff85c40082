package transport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/net/netutil"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/setup"
)

const (
	maxHeader     = 64 << 10
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	bodyTimeout   = time.Minute
	writeTimeout  = 30 * time.Second
	shutdownTime  = 10 * time.Second

	// KeepAliveEvery is the interval of keep-alive messages on a silent stream.
	KeepAliveEvery = 20 * time.Second
)

// Web serves the protocol over HTTP.
type Web struct {
	endpoint   *Endpoint
	options    setup.HTTP
	base       string // the URL that clients use
	Auth       *auth.Authenticator
	hosts      auth.HostCheck
	limits     *auth.Limiter
	streamable *server.StreamableHTTPServer
	sse        *server.SSEServer
	legacy     *legacyHTTP
	draining   atomic.Bool
	// serving ends when draining starts. A client that disconnects before then cancels its call.
	serving context.Context //nolint:containedctx // outlives each request
	drain   context.CancelFunc
	handler http.Handler
}

// NewWeb makes the HTTP side of a server that listens at addr. The caller calls Shutdown.
func (e *Endpoint) NewWeb(addr net.Addr) (*Web, error) {
	options := e.Options
	options.MaxBody = cmp.Or(options.MaxBody, maxMessage)
	options.Rate = cmp.Or(options.Rate, 50)
	w := &Web{
		endpoint: e, options: options, base: strings.TrimSuffix(options.PublicURL, "/"),
		limits: auth.NewLimiter(options.Rate),
	}
	if w.base == "" {
		w.base = baseURL(options, addr)
	}
	var err error
	if w.Auth, err = auth.New(options, w.base, addr); err != nil {
		return nil, err
	}
	if w.hosts, err = auth.NewHostCheck(options, w.base, addr); err != nil {
		return nil, err
	}
	e.Files.Links.Open(w.base)
	w.legacy = &legacyHTTP{endpoint: e, sessions: map[string]*webSession{}}
	w.serving, w.drain = context.WithCancel(e.Context)
	w.streamable = server.NewStreamableHTTPServer(e.Protocol,
		server.WithHTTPContextFunc(func(ctx context.Context, _ *http.Request) context.Context {
			return auth.WithClient(ctx, w.serving)
		}),
		server.WithDisableLocalhostProtection(true), // hostCheck does more
		server.WithStreamableHTTPLogger(e.Log),
	)
	w.sse = server.NewSSEServer(e.Protocol,
		server.WithBaseURL(w.base),
		server.WithKeepAlive(true), server.WithKeepAliveInterval(KeepAliveEvery),
		// No context function: the POST of a request ends at once, so only the client's cancellation ends the request.
		server.WithSSEDisableLocalhostProtection(true),
		server.WithAppendQueryToMessageEndpoint(),
		server.WithSSECORS(server.WithCORSAllowedOrigins(w.hosts.Origins...)), // without it, mcp-go allows every origin
	)
	w.handler = w.Routes()
	return w, nil
}

func baseURL(options setup.HTTP, addr net.Addr) string {
	scheme := "http"
	if options.TLSCert != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return scheme + "://" + addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// URL returns the URL for clients, without a path.
func (w *Web) URL() string { return w.base }

// ServeHTTP implements http.Handler.
func (w *Web) ServeHTTP(response http.ResponseWriter, r *http.Request) {
	w.handler.ServeHTTP(response, r)
}

// apiPrefix begins the paths of the API. Their errors are problems.
const apiPrefix = "/api/v1/"

// Routes maps paths to handlers. Any other path is not found.
func (w *Web) Routes() http.Handler {
	mux := http.NewServeMux()
	protocol := func(h http.Handler) http.Handler { return w.authenticated(w.body(h)) }
	mux.Handle("/mcp", protocol(http.HandlerFunc(w.eras)))
	mux.Handle("GET /sse", protocol(w.sse.SSEHandler()))
	mux.Handle("POST /message", protocol(w.owned(w.sse.MessageHandler())))
	mux.Handle("/files/{token}", http.HandlerFunc(w.file))
	if w.endpoint.API != nil {
		mux.Handle(apiPrefix, protocol(w.endpoint.API))
		for _, path := range w.endpoint.Open {
			mux.Handle("GET "+path, w.endpoint.API)
		}
	}
	mux.Handle("GET /metrics", w.authenticated(w.metrics()))
	mux.HandleFunc("GET /healthz", func(response http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(response, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(response http.ResponseWriter, _ *http.Request) {
		if w.draining.Load() {
			http.Error(response, "ending", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(response, "ready\n")
	})
	w.Auth.Routes(mux)
	return w.observed(w.guarded(mux))
}

// eras passes each request of streamable HTTP to the handler of its protocol version. mcp-go handles 2026-07-28 and
// later, with a session for each request; legacyHTTP handles earlier ones.
func (w *Web) eras(response http.ResponseWriter, r *http.Request) {
	var message []byte
	if r.Method == http.MethodPost {
		message, _ = io.ReadAll(r.Body) // body has read it already
		r.Body = io.NopCloser(bytes.NewReader(message))
	}
	switch {
	case isModern(r.Header, message):
		w.modern(response, r, message)
	case r.Method == http.MethodPost:
		w.legacy.post(response, r, message)
	case r.Method == http.MethodGet:
		w.legacy.get(response, r)
	case r.Method == http.MethodDelete:
		w.legacy.delete(response, r)
	default:
		w.streamable.ServeHTTP(response, r)
	}
}

// modern serves a request of protocol 2026-07-28 or later. A client cancels its call by closing the stream. So a
// notification is accepted and has no effect; mcp-go refuses one without the metadata that only requests need.
func (w *Web) modern(response http.ResponseWriter, r *http.Request, message []byte) {
	var head envelope
	if r.Method == http.MethodPost && json.Unmarshal(message, &head) == nil {
		switch {
		case len(head.ID) == 0 && strings.HasPrefix(head.Method, "notifications/"):
			response.WriteHeader(http.StatusAccepted)
			return
		case head.Method == string(mcp.MethodSubscriptionsListen):
			response, r = watchFirstWrite(response, r)
		}
	}
	w.streamable.ServeHTTP(response, r)
}

// isModern reports whether a request uses protocol 2026-07-28 or later. As in mcp-go, either the body or the header
// names the version.
func isModern(header http.Header, message []byte) bool {
	var body struct {
		Params struct {
			Meta *mcp.Meta `json:"_meta"`
		} `json:"params"`
	}
	if json.Unmarshal(message, &body) == nil && mcp.IsModernProtocol(body.Params.Meta.ProtocolVersion()) {
		return true
	}
	return mcp.IsModernProtocol(header.Get(mcp.HeaderProtocolVersion))
}

// Shutdown ends the sessions of both transports. It closes their streams and refuses new requests. Calls under way
// continue until the server closes.
func (w *Web) Shutdown() {
	w.draining.Store(true)
	w.drain()
	if w.endpoint.API != nil {
		w.endpoint.API.Shutdown()
	}
	w.sse.CloseSessions()
	w.legacy.shutdown()
}

// ServeWeb listens and serves until ctx ends, then gives requests time to end. It writes the URL to out.
func (e *Endpoint) ServeWeb(ctx context.Context, out io.Writer) error {
	options := e.Options
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", net.JoinHostPort(options.Host, strconv.Itoa(options.Port)))
	if err != nil {
		return core.Errorf(core.KindUnavailable, "mcp", "", "cannot listen: %w", err).WithHint("choose another --port")
	}
	defer func() { _ = listener.Close() }()
	web, err := e.NewWeb(listener.Addr())
	if err != nil {
		return err
	}
	defer web.Shutdown()
	if err := web.Auth.Enough(listener.Addr()); err != nil {
		return err
	}
	options.MaxConnections = cmp.Or(options.MaxConnections, 1024)
	options.HeaderTimeout = cmp.Or(options.HeaderTimeout, headerTimeout)
	h := &http.Server{
		Handler: web, ReadHeaderTimeout: options.HeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(e.Log.Handler(), slog.LevelDebug),
	}
	path := "/mcp"
	if e.Transport == setup.SSE {
		path = "/sse"
	}
	if _, err := fmt.Fprintf(
		out, "listening on %s%s\n%s", web.base, path, web.Auth.Introduce(web.base+path),
	); err != nil {
		return err
	}
	served := make(chan error, 1)
	limited := netutil.LimitListener(listener, options.MaxConnections)
	go func() {
		if options.TLSCert != "" {
			served <- h.ServeTLS(limited, options.TLSCert, options.TLSKey)
			return
		}
		served <- h.Serve(limited)
	}()
	select {
	case err := <-served:
		return core.Errorf(core.KindUnavailable, "mcp", "", "serving ended: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	web.Shutdown()
	if err := h.Shutdown(drain); err != nil {
		_ = h.Close() // requests under way had shutdownTime to end
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return core.Errorf(core.KindUnavailable, "mcp", "", "serving ended: %w", err)
	}
	return nil
}
