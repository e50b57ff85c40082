package transport

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/problem"
)

// authenticated passes on the requests of identified callers, within their limits.
func (w *Web) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, r *http.Request) {
		identity, err := w.Auth.Identify(r)
		switch {
		case errors.Is(err, core.KindUnauthorized):
			w.endpoint.Metrics.refused("unauthorized")
			response.Header().Set("WWW-Authenticate", w.Auth.Challenge())
			refuse(response, r, http.StatusUnauthorized, core.KindUnauthorized, err.Error())
			return
		case err != nil:
			w.endpoint.Log.WarnContext(r.Context(), "authentication", "error", err)
			refuse(
				response, r, http.StatusServiceUnavailable, core.KindUnavailable, "the identity cannot be verified now",
			)
			return
		case identity.NoTools && r.URL.Path != "/metrics",
			w.Auth.Required() && !identity.Metrics && r.URL.Path == "/metrics":
			refuse(response, r, http.StatusForbidden, core.KindUnauthorized, "the scope of this key does not allow it")
			return
		}
		if !w.limits.Allow(identity, r) {
			w.endpoint.Metrics.refused("rate")
			response.Header().Set("Retry-After", "1")
			refuse(response, r, http.StatusTooManyRequests, core.KindExhausted, "too many requests")
			return
		}
		identity.Selection, err = selectionOf(r)
		if err == nil && identity.Selection != nil {
			err = w.endpoint.CheckSelection(*identity.Selection)
		}
		if err != nil {
			http.Error(response, err.Error(), http.StatusBadRequest)
			return
		}
		identity.ReadOnly = identity.ReadOnly || identity.Selection != nil && identity.Selection.ReadOnly
		next.ServeHTTP(response, r.WithContext(auth.WithIdentity(r.Context(), identity)))
	})
}

// file serves a link to a file.
func (w *Web) file(response http.ResponseWriter, r *http.Request) {
	grant, err := w.endpoint.Files.Find(r)
	if err == nil && grant.Key != "" {
		err = w.Auth.Known(grant.Key)
	}
	if err != nil {
		http.Error(response, "this link is invalid or has expired", http.StatusNotFound)
		return
	}
	if !w.limits.Allow(auth.Identity{Key: grant.Key}, r) {
		http.Error(response, "too many requests", http.StatusTooManyRequests)
		return
	}
	w.endpoint.Files.Serve(response, r, grant)
}

// owned refuses messages for SSE sessions of other owners.
func (w *Web) owned(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, r *http.Request) {
		if !w.endpoint.Sessions.Belongs(r.URL.Query().Get("sessionId"), auth.OwnerKey(auth.IdentityFrom(r.Context()))) {
			http.Error(response, noSession, http.StatusNotFound)
			return
		}
		next.ServeHTTP(response, r)
	})
}

// observed counts and logs requests. It recovers from a panic of a request, but not from http.ErrAbortHandler.
func (w *Web) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		patient := &patientWriter{ResponseWriter: response, control: http.NewResponseController(response)}
		defer func() {
			p := recover()
			aborted := p == http.ErrAbortHandler //nolint:errorlint // compared by identity
			if p != nil && !aborted {
				w.endpoint.Log.ErrorContext(r.Context(), "a request panicked", "panic", p)
				if patient.status == 0 {
					http.Error(patient, "internal error", http.StatusInternalServerError)
				}
			}
			route := routeOf(r.URL.Path)
			w.endpoint.Metrics.requested(route, r.Method, patient.status)
			w.endpoint.Log.DebugContext(
				r.Context(), "http", "method", r.Method, "route", route, "status", patient.status, "ms",
				time.Since(begin).Milliseconds(),
			)
			if aborted {
				panic(p) // the server breaks the connection, so that the client does not take a part for the whole
			}
		}()
		next.ServeHTTP(patient, r)
	})
}

// routeOf returns a path without its secret or unbounded parts.
func routeOf(path string) string {
	switch path {
	case "/mcp", "/sse", "/message", "/metrics", "/healthz", "/readyz":
		return path
	}
	for _, prefix := range []string{"/files/", apiPrefix} {
		if strings.HasPrefix(path, prefix) {
			return prefix
		}
	}
	return "other"
}

// guarded refuses requests from disallowed hosts and origins, and sets security headers.
func (w *Web) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, r *http.Request) {
		header := response.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
		header.Set("Referrer-Policy", "no-referrer")
		if err := w.hosts.Check(r); err != nil {
			refuse(response, r, http.StatusForbidden, core.KindUnauthorized, err.Error())
			return
		}
		if auth.CrossOrigin(header, r) {
			response.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(response, r)
	})
}

// body reads a request's whole body, in bounded time and size, before a handler waits for it. It accepts only JSON,
// which no web page can send to another origin without permission.
func (w *Web) body(next http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(response, r)
			return
		}
		if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); !bare(r) &&
			(err != nil || media != "application/json") {
			refuse(response, r, http.StatusBadRequest, core.KindUsage, "the content is not application/json")
			return
		}
		control := http.NewResponseController(response)
		_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
		data, err := io.ReadAll(http.MaxBytesReader(response, r.Body, w.options.MaxBody))
		_ = control.SetReadDeadline(time.Time{})
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			refuse(
				response, r, http.StatusRequestEntityTooLarge, core.KindUsage,
				"the body is larger than "+core.Bytes(w.options.MaxBody).String(),
			)
			return
		}
		if err != nil {
			refuse(response, r, http.StatusRequestTimeout, core.KindTimeout, "the body was not received")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
		next.ServeHTTP(response, r)
	})
}

// bare reports whether a request has no content, and has credentials that no web page can send to another origin
// without permission.
func bare(r *http.Request) bool {
	return r.ContentLength == 0 && r.Header.Get("Content-Type") == "" && r.Header.Get("Authorization") != ""
}

// refuse answers a request that no handler gets: with a problem below apiPrefix, else with text.
func refuse(response http.ResponseWriter, r *http.Request, status int, kind core.Kind, text string) {
	if !strings.HasPrefix(r.URL.Path, apiPrefix) {
		http.Error(response, text, status)
		return
	}
	problem.Of(core.Errorf(kind, "api", "", "%s", text)).WithStatus(status).Write(response)
}

// patientWriter sets a new deadline for each write to a client, and records the status.
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
