package tools

import (
	"context"
	"iter"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// Event is an event of the caller's sandboxes, without the values of secrets.
type Event struct {
	Time     time.Time  `json:"time"`
	Type     string     `json:"type" enum:"state|operation|progress|exec|denial"`
	Provider string     `json:"provider,omitempty"`
	Sandbox  string     `json:"sandbox,omitempty" jsonschema:"id"`
	Name     string     `json:"name,omitempty"`
	State    string     `json:"state,omitempty" jsonschema:"with state"`
	Reason   string     `json:"reason,omitempty" jsonschema:"with state"`
	Message  string     `json:"message,omitempty" jsonschema:"with state"`
	Op       string     `json:"operation,omitempty" jsonschema:"with operation"`
	Result   string     `json:"result,omitempty" jsonschema:"with operation: ok, or the kind of its error"`
	Actor    string     `json:"actor,omitempty" jsonschema:"who did it"`
	Step     string     `json:"step,omitempty" jsonschema:"with progress"`
	Exec     *execEntry `json:"exec,omitempty" jsonschema:"with exec"`
	Denial   *denial    `json:"denial,omitempty" jsonschema:"with denial"`
}

// Events yields the events of the sandboxes that the caller may see, until ctx ends. It calls begin before the first
// one. An error does not end the sequence unless it is the last item.
func (c *Call) Events(ctx context.Context, begin func()) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		visible := map[string]bool{}
		if c.Identity.Isolated {
			listing, err := c.Service.Sandboxes.List(ctx, core.ListFilter{All: true})
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, sb := range listing.Sandboxes {
				visible[sb.Ref()] = true
			}
		}
		begin()
		for event, err := range c.Service.Records.Events(ctx) {
			if err != nil {
				if !yield(Event{}, err) {
					return
				}
				continue
			}
			if c.sees(ctx, event, visible) && !yield(c.eventOf(ctx, event), nil) {
				return
			}
		}
	}
}

// sees reports whether the caller may see an event. Service.Within does not narrow events. An isolated caller sees
// those of sandboxes that the caller's service finds. visible has the ones it found: a sandbox that has just ended
// cannot be found anymore.
func (c *Call) sees(ctx context.Context, event core.Event, visible map[string]bool) bool {
	if !c.Identity.Isolated {
		return true
	}
	ref := refOf(event)
	if event.Sandbox == "" || event.Provider == "" {
		return false
	}
	if visible[ref] {
		return true
	}
	sb, err := c.Service.Sandboxes.Resolve(ctx, ref)
	if err != nil || sb.Ref() != ref { // another sandbox may have that id as its name
		return false
	}
	visible[ref] = true
	return true
}

// refOf returns the reference of an event's sandbox.
func refOf(e core.Event) string { return e.Provider + "/" + e.Sandbox }

// eventOf leaves out a command if the secrets of its sandbox cannot be known.
func (c *Call) eventOf(ctx context.Context, e core.Event) Event {
	clean := func(text string) string { return c.Host.Secrets.Clean(e.Sandbox, text) }
	out := Event{
		Time: e.Time, Type: string(e.Type), Provider: e.Provider, Sandbox: e.Sandbox, Name: e.Name, State: string(e.State),
		Reason: string(e.Reason), Message: clean(e.Message), Op: e.Op, Result: e.Result, Actor: e.Actor,
	}
	if e.Progress != nil {
		out.Step = clean(e.Progress.Step)
	}
	if e.Exec != nil {
		if _, err := c.Resolve(ctx, refOf(e)); err == nil {
			entry := c.entryOf(e.Sandbox, *e.Exec)
			out.Exec = &entry
		}
	}
	if e.Denial != nil {
		d := denialOf(*e.Denial)
		out.Denial = &d
	}
	return out
}
