package rest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/code"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// session is a session in the response of GET /api/v1/sessions.
type session struct {
	ID          string        `json:"session_id"`
	Sandbox     string        `json:"sandbox"`
	Language    code.Language `json:"language"`
	State       string        `json:"state"`
	Count       int64         `json:"execution_count"`
	Created     time.Time     `json:"created_at,omitzero"`
	Used        time.Time     `json:"last_used,omitzero"`
	IdleTimeout int64         `json:"idle_timeout" jsonschema:"in seconds"`
}

// sessions is the response.
type sessions struct {
	Sessions []session `json:"sessions"`
	Total    int       `json:"total"`
}

// sessionsIn names the sandbox of sessions.
type sessionsIn struct {
	Sandbox string `json:"sandbox,omitempty" jsonschema:"id or name; left out: the one that runs without a sandbox share"`
}

// sessionIn names a session.
type sessionIn struct {
	Session  string `json:"session" jsonschema:"name"`
	Sandbox  string `json:"sandbox,omitempty" jsonschema:"id or name; left out: the one that runs without a sandbox share"`
	Language string `json:"language,omitempty" jsonschema:"python, javascript or bash" default:"python"`
}

// sessionOperations are those of code sessions.
func sessionOperations() []operation {
	runs := []string{"run_code"}
	return []operation{
		{
			method: http.MethodPost, path: "/execute", gates: runs, handle: (*API).execute,
			produces: []string{jsonLines, eventStream},
			tool: tools.Define(tools.Tool{
				Name: "run_code", Title: "Run code in a session",
				Description: "Run code and stream its output and results. Each message is a line of JSON or, with Accept: " +
					"text/event-stream, an event. A client that disconnects interrupts its code.",
			}, served[run, message]),
		},
		{
			method: http.MethodGet, path: "/sessions", gates: runs, tool: tools.Define(tools.Tool{
				Name: "session_list", Title: "List sessions", ReadOnly: true, Description: "List the code sessions of a sandbox.",
			}, listSessions),
		},
		{
			method: http.MethodDelete, path: "/sessions/{session}", gates: runs, status: http.StatusNoContent,
			tool: tools.Define(tools.Tool{
				Name: "session_close", Title: "Close a session", Description: "End a code session and forget its variables.",
			}, closeSession),
		},
		{
			method: http.MethodPost, path: "/sessions/{session}/interrupt", gates: runs, query: true,
			status: http.StatusNoContent, tool: tools.Define(tools.Tool{
				Name: "session_interrupt", Title: "Interrupt a session", Description: "Interrupt the code that a session runs.",
			}, interruptSession),
		},
	}
}

// listSessions returns the sessions of one sandbox. Before the first run there are none.
func listSessions(ctx context.Context, c *tools.Call, in sessionsIn) (sessions, error) {
	none := sessions{Sessions: []session{}}
	sb, err := c.Find(ctx, cmp.Or(in.Sandbox, c.CodeSandboxName()))
	if errors.Is(err, core.KindNotFound) && in.Sandbox == "" {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	found, err := code.Sessions{Execs: c.Service.Execs}.List(ctx, sb.Ref())
	if err != nil {
		return none, err
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

// done is the output of an operation whose response has no body.
type done struct{}

func closeSession(ctx context.Context, c *tools.Call, in sessionIn) (done, error) {
	return done{}, in.on(ctx, c, code.Sessions.Close)
}

func interruptSession(ctx context.Context, c *tools.Call, in sessionIn) (done, error) {
	return done{}, in.on(ctx, c, code.Sessions.Interrupt)
}

// on does something with the session.
func (in sessionIn) on(
	ctx context.Context, c *tools.Call,
	do func(code.Sessions, context.Context, string, code.Language, string) error,
) error {
	language, err := code.ParseLanguage(cmp.Or(in.Language, string(code.Python)))
	if err != nil {
		return err
	}
	sb, err := c.Find(ctx, cmp.Or(in.Sandbox, c.CodeSandboxName()))
	if err != nil {
		return err
	}
	return do(code.Sessions{Execs: c.Service.Execs}, ctx, sb.Ref(), language, in.Session)
}
