package rest

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// session is a session in the response of GET /api/v1/sessions.
type session struct {
	ID       string        `json:"session_id"`
	Sandbox  string        `json:"sandbox"`
	Language code.Language `json:"language"`
	State    string        `json:"state"`
	Count    int64         `json:"execution_count"`
	Created  time.Time     `json:"created_at,omitzero"`
	Used     time.Time     `json:"last_used,omitzero"`
	// IdleTimeout is in seconds.
	IdleTimeout int64 `json:"idle_timeout"`
}

// sessions is the response.
type sessions struct {
	Sessions []session `json:"sessions"`
	Total    int       `json:"total"`
}

// place returns the sandbox and the language that a request names.
func (a *api) place(r *http.Request) (*tools.Call, core.Sandbox, code.Language, error) {
	language, err := code.ParseLanguage(cmp.Or(r.URL.Query().Get("language"), string(code.Python)))
	if err != nil {
		return nil, core.Sandbox{}, "", err
	}
	c := a.call(r)
	sb, err := c.Find(r.Context(), cmp.Or(r.URL.Query().Get("sandbox"), c.CodeSandboxName()))
	return c, sb, language, err
}

// list returns the sessions of one sandbox. Before the first run there are none.
func (a *api) list(r *http.Request) (any, error) {
	c, sb, _, err := a.place(r)
	if errors.Is(err, core.KindNotFound) && r.URL.Query().Get("sandbox") == "" {
		return sessions{Sessions: []session{}}, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := code.Sessions{Execs: c.Service.Execs}.List(r.Context(), sb.Ref())
	if err != nil {
		return nil, err
	}
	all := sessions{Sessions: make([]session, len(found)), Total: len(found)}
	for i, s := range found {
		all.Sessions[i] = session{
			ID: s.Name, Sandbox: sb.ID, Language: s.Language, State: s.State, Count: s.Count, Created: s.Started, Used: s.Used,
			IdleTimeout: s.IdleTimeout,
		}
	}
	return all, nil
}

func (a *api) end(r *http.Request) (any, error) {
	c, sb, language, err := a.place(r)
	if err != nil {
		return nil, err
	}
	return nil, code.Sessions{Execs: c.Service.Execs}.Close(r.Context(), sb.Ref(), language, r.PathValue("session"))
}

func (a *api) interrupt(r *http.Request) (any, error) {
	c, sb, language, err := a.place(r)
	if err != nil {
		return nil, err
	}
	return nil, code.Sessions{Execs: c.Service.Execs}.Interrupt(r.Context(), sb.Ref(), language, r.PathValue("session"))
}
