package rest

import (
	"encoding/json"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
	"github.com/seed-0724f904/sb/mcp/auth"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// api serves the routes. Every request is a call of its caller, with the rights of a tool call.
type api struct{ host *tools.Host }

// New returns the handler of all routes below /api/v1/.
func New(host *tools.Host) http.Handler {
	a := &api{host: host}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/execute", a.changing(a.execute))
	mux.HandleFunc("GET /api/v1/sessions", a.answer(a.list))
	mux.HandleFunc("DELETE /api/v1/sessions/{session}", a.changing(a.answer(a.end)))
	mux.HandleFunc("POST /api/v1/sessions/{session}/interrupt", a.changing(a.answer(a.interrupt)))
	return mux
}

// call returns the call of a request's caller.
func (a *api) call(r *http.Request) *tools.Call {
	return a.host.Call(r.Context(), mcp.CallToolRequest{})
}

// changing refuses callers that may only read.
func (a *api) changing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if auth.IdentityFrom(r.Context()).ReadOnly {
			writeProblem(w, core.Errorf(core.KindUnauthorized, "api", "", "the scope of this key only allows reading"))
			return
		}
		next(w, r)
	}
}

// answer makes a handler of a function whose value is the response. Without a value the response is 204.
func (a *api) answer(f func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := f(r)
		switch {
		case err != nil:
			writeProblem(w, err)
		case value == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			writeJSON(w, http.StatusOK, "application/json", value)
		}
	}
}

func writeJSON(w http.ResponseWriter, status int, contentType string, value any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// problem is an error as RFC 9457 has it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Kind is the core's kind, and Hint the next step.
	Kind core.Kind `json:"kind"`
	Hint string    `json:"hint,omitempty"`
}

func writeProblem(w http.ResponseWriter, err error) {
	kind := core.KindOf(err)
	status := statusOf(kind)
	writeJSON(w, status, "application/problem+json", problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: err.Error(), Kind: kind,
		Hint: hintOf(err),
	})
}

// hintOf returns the next step for a program.
func hintOf(err error) string {
	if code.Gone(err) {
		return `send "restart": true to start another session`
	}
	return core.HintOf(err)
}

func statusOf(kind core.Kind) int {
	switch kind {
	case core.KindUsage:
		return http.StatusBadRequest
	case core.KindNotFound:
		return http.StatusNotFound
	case core.KindConflict:
		return http.StatusConflict
	case core.KindUnsupported:
		return http.StatusNotImplemented
	case core.KindUnavailable:
		return http.StatusServiceUnavailable
	case core.KindUnauthorized:
		return http.StatusForbidden
	case core.KindTimeout:
		return http.StatusGatewayTimeout
	case core.KindExhausted:
		return http.StatusTooManyRequests
	case core.KindInternal, core.KindCanceled:
	}
	return http.StatusInternalServerError
}
