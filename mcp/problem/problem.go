package problem

import (
	"encoding/json"
	"net/http"

	"github.com/seed-0724f904/sb/core"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// Problem is an error as RFC 9457 has it.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title" jsonschema:"name of the status"`
	Status int    `json:"status"`
	Detail string `json:"detail" jsonschema:"the error, for a person"`
	Kind   string `json:"kind" jsonschema:"the error, for a program"`
	Hint   string `json:"hint,omitempty" jsonschema:"the next step"`
}

// Of returns the problem of an error, with the status of its kind.
func Of(err error) Problem {
	status := Status(core.KindOf(err))
	return Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: err.Error(),
		Kind: core.KindOf(err).String(), Hint: core.HintOf(err),
	}
}

// WithStatus returns the problem with another status.
func (p Problem) WithStatus(status int) Problem {
	p.Status, p.Title = status, http.StatusText(status)
	return p
}

// Write sends the problem as the response.
func (p Problem) Write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", ContentType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}

// Status returns the status of a kind.
func Status(kind core.Kind) int {
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
