package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
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
	"github.com/seed-0724f904/sb/mcp/setup"
)

const (
	maxHeader      = 64 << 10
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	bodyTimeout    = time.Minute
	writeTimeout   = 30 * time.Second
	shutdownTime   = 10 * time.Second
	keepAliveEvery = 20 * time.Second
)

// Web serves the protocol over HTTP.
type Web struct {
	server     *Server
	options    setup.HTTP
	base       string // the URL that clients use
	auth       *authenticator
	hosts      hostCheck
	limits     *limiter
	streamable *server.StreamableHTTPServer
	sse        *server.SSEServer
	legacy     *legacyHTTP
	draining   atomic.Bool
	handler    http.Handler
}

// NewWeb makes the HTTP side of a server that listens at addr. The caller calls Shutdown.
func (s *Server) NewWeb(addr net.Addr) (*Web, error) {
	options := s.opts.HTTP
	fillZero(&options.MaxBody, maxMessage)
	fillZero(&options.Rate, 50)
	w := &Web{server: s, options: options, base: strings.TrimSuffix(options.PublicURL, "/"), limits: newLimiter(options.Rate)}
	if w.base == "" {
		w.base = baseURL(options, addr)
	}
	var err error
	if w.auth, err = newAuthenticator(options, w.base, addr); err != nil {
		return nil, err
	}
	if w.hosts, err = newHostCheck(options, w.base, addr); err != nil {
		return nil, err
	}
	s.links.Store(&links{base: w.base, secret: []byte(randomText())})
	w.legacy = &legacyHTTP{server: s, sessions: map[string]*webSession{}}
	w.streamable = server.NewStreamableHTTPServer(s.mcp,
		server.WithHTTPContextFunc(func(ctx context.Context, r *http.Request) context.Context { return withClient(ctx, r.Context()) }),
		server.WithDisableLocalhostProtection(true), // hostCheck does more
		server.WithStreamableHTTPLogger(s.log),
	)
	w.sse = server.NewSSEServer(s.mcp,
		server.WithBaseURL(w.base),
		server.WithKeepAlive(true), server.WithKeepAliveInterval(keepAliveEvery),
		// A request of this transport ends only when its client says so: the POST that brought it is over at once.
		server.WithSSEDisableLocalhostProtection(true),
		server.WithAppendQueryToMessageEndpoint(),
		server.WithSSECORS(server.WithCORSAllowedOrigins(w.hosts.origins...)), // without it, mcp-go lets every origin read
	)
	w.handler = w.routes()
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

// URL is where clients reach the server, without a path.
func (w *Web) URL() string { return w.base }

// ServeHTTP implements http.Handler.
func (w *Web) ServeHTTP(response http.ResponseWriter, r *http.Request) {
	w.handler.ServeHTTP(response, r)
}

// routes ties paths to handlers. Whatever is not named is not there.
func (w *Web) routes() http.Handler {
	mux := http.NewServeMux()
	protocol := func(h http.Handler) http.Handler { return w.authenticated(w.body(h)) }
	mux.Handle("/mcp", protocol(http.HandlerFunc(w.eras)))
	mux.Handle("GET /sse", protocol(w.sse.SSEHandler()))
	mux.Handle("POST /message", protocol(w.owned(w.sse.MessageHandler())))
	mux.Handle("/files/{token}", http.HandlerFunc(w.file))
	mux.Handle("GET /metrics", w.authenticated(w.metrics()))
	mux.HandleFunc("GET /healthz", func(response http.ResponseWriter, _ *http.Request) { say(response, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(response http.ResponseWriter, _ *http.Request) {
		if w.draining.Load() {
			say(response, http.StatusServiceUnavailable, "ending")
			return
		}
		say(response, http.StatusOK, "ready")
	})
	w.auth.routes(mux)
	return w.observed(w.guarded(mux))
}

// eras gives each request of streamable HTTP to whom its protocol's version concerns: from 2026-07-28 on mcp-go, which has a
// session for each request; before it legacyHTTP.
func (w *Web) eras(response http.ResponseWriter, r *http.Request) {
	var message []byte
	if r.Method == http.MethodPost {
		message, _ = io.ReadAll(r.Body) // body has read it already
		r.Body = io.NopCloser(bytes.NewReader(message))
	}
	switch {
	case modern(r.Header, message):
		w.streamable.ServeHTTP(response, r)
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

// modern says whether a request is of protocol 2026-07-28 or later, by what mcp-go decides it by: either of both places names it.
func modern(header http.Header, message []byte) bool {
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

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") //nolint:gosec // plain text, and nosniff
}

// observed counts and logs requests, and ends one that panics.
func (w *Web) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		patient := &patientWriter{ResponseWriter: response, control: http.NewResponseController(response)}
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the very value
				w.server.log.ErrorContext(r.Context(), "a request panicked", "panic", p)
				if patient.status == 0 {
					say(patient, http.StatusInternalServerError, "internal error")
				}
			}
			route := routeOf(r.URL.Path)
			w.server.stats.requested(route, r.Method, patient.status)
			w.server.log.DebugContext(r.Context(), "http", "method", r.Method, "route", route, "status", patient.status, "ms", time.Since(begin).Milliseconds())
		}()
		next.ServeHTTP(patient, r)
	})
}

// routeOf is a path without what is secret or unbounded in it.
func routeOf(path string) string {
	switch path {
	case "/mcp", "/sse", "/message", "/metrics", "/healthz", "/readyz":
		return path
	}
	if strings.HasPrefix(path, "/files/") {
		return "/files/"
	}
	return "other"
}

// guarded refuses what comes from the wrong place.
func (w *Web) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, r *http.Request) {
		header := response.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
		header.Set("Referrer-Policy", "no-referrer")
		if err := w.hosts.check(r); err != nil {
			say(response, http.StatusForbidden, err.Error())
			return
		}
		if crossOrigin(header, r) {
			response.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(response, r)
	})
}

// body reads a request's body whole, in bounded time and size, before anybody waits for it. It takes JSON alone, which no
// web page can send to another origin without being allowed to.
func (w *Web) body(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(response, r)
			return
		}
		if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
			say(response, http.StatusBadRequest, "the content is not application/json")
			return
		}
		control := http.NewResponseController(response)
		_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
		data, err := io.ReadAll(http.MaxBytesReader(response, r.Body, w.options.MaxBody))
		_ = control.SetReadDeadline(time.Time{})
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			say(response, http.StatusRequestEntityTooLarge, "the body is larger than "+core.Bytes(w.options.MaxBody).String())
			return
		}
		if err != nil {
			say(response, http.StatusRequestTimeout, "the body did not come")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
		next.ServeHTTP(response, r)
	})
}

// patientWriter gives each write to a client its own time, and remembers the status.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int
}

func (w *patientWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *patientWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *patientWriter) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *patientWriter) FlushError() error {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	return w.control.Flush()
}

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Shutdown ends the sessions of both transports: their streams close, new requests are refused. Calls under way go on until
// the server is closed.
func (w *Web) Shutdown() {
	w.draining.Store(true)
	w.sse.CloseSessions()
	w.legacy.shutdown()
}

// ServeWeb listens and serves until ctx ends, then lets requests end. tell is told the URL.
func (s *Server) ServeWeb(ctx context.Context, tell io.Writer) error {
	options := s.opts.HTTP
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", net.JoinHostPort(options.Host, strconv.Itoa(options.Port)))
	if err != nil {
		return core.Errorf(core.KindUnavailable, "mcp", "", "cannot listen: %w", err).WithHint("choose another --port")
	}
	defer func() { _ = listener.Close() }()
	web, err := s.NewWeb(listener.Addr())
	if err != nil {
		return err
	}
	defer web.Shutdown()
	if err := web.auth.enough(listener.Addr()); err != nil {
		return err
	}
	fillZero(&options.MaxConnections, 1024)
	fillZero(&options.HeaderTimeout, headerTimeout)
	h := &http.Server{
		Handler: web, ReadHeaderTimeout: options.HeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	path := "/mcp"
	if s.opts.Transport == setup.SSE {
		path = "/sse"
	}
	if _, err := fmt.Fprintf(tell, "listening on %s%s\n%s", web.base, path, web.auth.introduce(web.base+path)); err != nil {
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
		_ = h.Close() // whoever is still there had their time
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return core.Errorf(core.KindUnavailable, "mcp", "", "serving ended: %w", err)
	}
	return nil
}

func ownerKey(who Identity) string { return strconv.FormatBool(who.Isolated) + "/" + who.Owner }

// owned refuses messages for sessions of SSE that are somebody else's.
func (w *Web) owned(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, r *http.Request) {
		if !w.server.sessions.belongs(r.URL.Query().Get("sessionId"), ownerKey(identityFrom(r.Context()))) {
			say(response, http.StatusNotFound, noSession)
			return
		}
		next.ServeHTTP(response, r)
	})
}
