package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/problem"
	"github.com/seed-0724f904/sb/mcp/reply"
	"github.com/seed-0724f904/sb/mcp/setup"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// prefix begins the path of every route.
const prefix = "/api/v1"

// API serves the routes. Every request is a call of its caller, with the rights of a tool call.
type API struct {
	host     *tools.Host
	mux      *http.ServeMux
	launches launches
	// streams ends the responses that last as long as their client.
	streams    context.Context //nolint:containedctx // lives as long as the server
	endStreams context.CancelFunc
}

// New returns the handler of all routes below /api/v1/ that the host's options allow. The caller calls Shutdown.
func New(host *tools.Host) (*API, error) {
	opts := host.Options
	if len(opts.Toolsets)+len(opts.Tools) == 0 {
		opts.Toolsets = []string{setup.All} // no model pays for them
	}
	served, err := tools.Select(opts)
	if err != nil {
		return nil, err
	}
	document, err := Document()
	if err != nil {
		return nil, err
	}
	a := &API{host: host, mux: http.NewServeMux()}
	a.streams, a.endStreams = context.WithCancel(host.Context)
	for _, op := range operations() {
		if op.allowed(served) {
			a.mux.HandleFunc(op.method+" "+prefix+op.path, a.serve(op))
		}
	}
	a.mux.HandleFunc("GET "+HealthPath, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, health{Status: "healthy"})
	})
	a.mux.HandleFunc("GET "+DocumentPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document) // the client may be gone
	})
	a.mux.HandleFunc("/", a.unknown)
	return a, nil
}

// The paths that need no key.
const (
	HealthPath   = prefix + "/health"
	DocumentPath = prefix + "/openapi.json"
)

// Public lists the paths that need no key.
func Public() []string { return []string{HealthPath, DocumentPath} }

// health is the response of GET /api/v1/health.
type health struct {
	Status string `json:"status"`
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Shutdown ends the responses that last as long as their client.
func (a *API) Shutdown() { a.endStreams() }

// unknown answers requests for which there is no route.
func (a *API) unknown(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := a.mux.Handler(other); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		problem.Of(core.Errorf(core.KindUsage, "api", "", "this route does not take %s", r.Method)).
			WithStatus(http.StatusMethodNotAllowed).Write(w)
		return
	}
	problem.Of(core.Errorf(core.KindNotFound, "api", "", "there is no such route, or this server does not allow it").
		WithHint("%s lists the routes", DocumentPath)).Write(w)
}

// serve makes the handler of an operation.
func (a *API) serve(op operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		// The connection belongs to this request alone, so a broken one is no cancellation: commands outlive it.
		ctx := auth.WithClient(r.Context(), r.Context())
		c := a.host.Call(ctx, mcp.CallToolRequest{})
		c.MaxOutput = reply.MaxBudget
		c.Session.Enter()
		defer c.Session.Leave()
		err := a.perform(op, w, r.WithContext(ctx), c)
		outcome := "ok"
		if err != nil {
			outcome = core.KindOf(err).String()
			problemOf(err).Write(w)
		}
		a.host.Log.InfoContext(ctx, "api", "operation", op.tool.Name, "result", outcome, "ms", time.Since(begin).
			Milliseconds(), "owner", c.Identity.Owner)
	}
}

// perform serves a request. With an error it has written nothing.
func (a *API) perform(op operation, w http.ResponseWriter, r *http.Request, c *tools.Call) error {
	if c.Identity.ReadOnly && !op.tool.ReadOnly {
		return core.Errorf(core.KindUnauthorized, "api", "", "the scope of this key only allows reading")
	}
	if op.handle != nil {
		return op.handle(a, op, w, r, c)
	}
	arguments, err := op.arguments(r)
	if err != nil {
		return err
	}
	value, err := op.call(r.Context(), c, arguments)
	if err != nil {
		return err
	}
	if op.status == http.StatusNoContent {
		w.WriteHeader(op.status)
		return nil
	}
	writeJSON(w, op.success(), value)
	return nil
}

// call runs the operation's tool and returns its output.
func (op operation) call(ctx context.Context, c *tools.Call, arguments json.RawMessage) (json.RawMessage, error) {
	result, err := op.tool.Run(ctx, c, arguments)
	if err != nil {
		return nil, err
	}
	value, ok := result.StructuredContent.(json.RawMessage)
	if !ok || result.IsError {
		return nil, core.Errorf(core.KindInternal, op.tool.Name, "", "the operation has no result")
	}
	return value, nil
}

// allowed reports whether the server serves one of the tools that enable the operation.
func (op operation) allowed(served []tools.Tool) bool {
	names := op.gates
	if len(names) == 0 {
		names = []string{op.tool.Name}
	}
	return op.open || slices.ContainsFunc(served, func(t tools.Tool) bool { return slices.Contains(names, t.Name) })
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}

// problemOf returns the problem of an error, with a hint for a program.
func problemOf(err error) problem.Problem {
	p := problem.Of(err)
	if code.Gone(err) {
		p.Hint = goneHint
	}
	if e, ok := errors.AsType[*failure](err); ok {
		p = p.WithStatus(e.status)
	}
	return p
}

// goneHint is the next step after a session has ended.
const goneHint = `send "restart": true to start another session`

// failure is an error with a status that its kind does not have.
type failure struct {
	status int
	err    error
}

// Error implements error.
func (e *failure) Error() string { return e.err.Error() }

// Unwrap returns the error.
func (e *failure) Unwrap() error { return e.err }
