package rest

import (
	"errors"
	"net/http"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/mcp/tools"
)

// eventsIn is the input of events.
type eventsIn struct {
	Sandbox string `json:"sandbox,omitempty" jsonschema:"id or name; left out: all of the caller's"`
}

// eventsOperation needs no tool, as the resources of the protocol do not.
func eventsOperation() operation {
	return operation{
		method: http.MethodGet, path: "/events", open: true, handle: (*API).events,
		produces: []string{jsonLines, eventStream},
		tool: tools.Define(tools.Tool{
			Name: "events", Title: "Watch sandboxes", ReadOnly: true,
			Description: "Stream the events of the caller's sandboxes until the client disconnects: changed states, " +
				"operations, commands and refused connections. Each message is a line of JSON or, with Accept: " +
				"text/event-stream, an event. A failure is the last message, with problem.",
		}, served[eventsIn, tools.Event]),
	}
}

// events streams events. The first message comes with the first event, but the headers come at once.
func (a *API) events(op operation, w http.ResponseWriter, r *http.Request, c *tools.Call) error {
	var in eventsIn
	if err := op.decode(r, &in); err != nil {
		return err
	}
	ctx, cancel := a.lasting(r.Context())
	defer cancel()
	only := ""
	if in.Sandbox != "" {
		sb, err := c.Find(ctx, in.Sandbox)
		if err != nil {
			return err
		}
		only = sb.ID
	}
	s := newStream(w, r)
	defer s.end()
	if r.Method == http.MethodHead {
		s.begin()
		return nil
	}
	defer s.keepAlive()()
	begin := func() { s.begin() }
	for event, err := range c.Events(ctx, begin) {
		switch {
		case err != nil && ctx.Err() == nil:
			if !s.started() {
				return err
			}
			s.failed(err)
			if errors.Is(err, core.KindExhausted) {
				return nil
			}
		case err == nil && (only == "" || event.Sandbox == only):
			s.send(event)
		}
	}
	return nil
}
