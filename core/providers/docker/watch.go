package docker

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/engine"
)

// Watch implements core.Watcher. Without an installed engine, there are no events.
func (p *Provider) Watch(ctx context.Context) iter.Seq2[core.Event, error] {
	return func(yield func(core.Event, error) bool) {
		e, err := p.connect(ctx)
		if errors.Is(err, engine.ErrNone) {
			return
		}
		if err != nil {
			yield(core.Event{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		seen := time.Now()
		stream := e.events(ctx, "")
		for {
			select {
			case message := <-stream.Messages:
				seen = time.Unix(0, message.TimeNano)
				event, ok := p.event(ctx, message)
				if ok && !yield(event, nil) {
					return
				}
			case err := <-stream.Err:
				if ctx.Err() != nil {
					return
				}
				if e.Podman && errors.Is(err, io.EOF) {
					// Podman ends a stream when it starts a new log of events.
					select {
					case <-time.After(eventsPause):
						stream = e.events(ctx, seen.Add(1).Format(time.RFC3339Nano))
						continue
					case <-ctx.Done():
						return
					}
				}
				yield(core.Event{}, engine.Classify(ctx, "watch", "", err))
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// eventsPause is the pause between a stream of events that ended and the next.
const eventsPause = 100 * time.Millisecond

// events returns the engine's messages about sandboxes, from the time since, or from now for "".
func (e containers) events(ctx context.Context, since string) client.EventsResult {
	return e.Client.Events(ctx, client.EventsListOptions{
		Since: since, Filters: make(client.Filters).Add("type", "container").Add("label", labelVersion+"="+version),
	})
}

// event converts an engine's message to a sandbox's event; ok is false if there is none.
func (p *Provider) event(ctx context.Context, m events.Message) (event core.Event, ok bool) {
	// Podman gives no labels with some of its messages; their filter has matched already.
	name := m.Actor.Attributes[labelName]
	event = core.Event{
		Time: time.Unix(0, m.TimeNano), Type: core.EventState, Provider: Name, Sandbox: idOf(m.Actor.ID), Name: name,
	}
	if containerOf(event.Sandbox) == "" {
		return core.Event{}, false
	}
	if m.Action == events.ActionDestroy || m.Action == events.ActionRemove {
		return event, strings.HasPrefix(m.Actor.Attributes["name"], namePrefix)
	}
	if !slices.Contains(
		[]events.Action{events.ActionStart, events.ActionDie, events.ActionPause, events.ActionUnPause}, m.Action,
	) {
		return core.Event{}, false
	}
	sb, err := p.Get(ctx, event.Sandbox)
	if err != nil {
		return core.Event{}, false // the sandbox was removed since, which has its own message
	}
	event.Name, event.State, event.Reason, event.Message = sb.Name, sb.State, sb.Reason, sb.Message
	return event, true
}
