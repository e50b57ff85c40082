//go:build linux

package local

import (
	"context"
	"iter"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// watchPoll is the interval of Watch. A round costs a few small reads for each sandbox.
const watchPoll = 250 * time.Millisecond

// Watch implements core.Watcher: state changes of any cause, and connections that network policies refuse.
func (p *Provider) Watch(ctx context.Context) iter.Seq2[core.Event, error] {
	return func(yield func(core.Event, error) bool) {
		tick := time.NewTicker(watchPoll)
		defer tick.Stop()
		var known map[string]core.Sandbox
		denied := map[string]int{}
		for {
			sandboxes, err := p.List(ctx)
			if err != nil {
				if ctx.Err() == nil {
					yield(core.Event{}, err)
				}
				return
			}
			now := make(map[string]core.Sandbox, len(sandboxes))
			for _, sb := range sandboxes {
				now[sb.ID] = sb
				if known != nil && known[sb.ID].State != sb.State && !yield(stateEvent(sb), nil) {
					return
				}
				if event, more := p.denialEvent(sb, denied); more && known != nil && !yield(event, nil) {
					return
				}
			}
			for id, sb := range known {
				if _, still := now[id]; !still {
					delete(denied, id)
					sb.State, sb.Reason, sb.Message = "", "", ""
					if !yield(stateEvent(sb), nil) {
						return
					}
				}
			}
			known = now
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
}

func stateEvent(sb core.Sandbox) core.Event {
	return core.Event{
		Time: time.Now(), Type: core.EventState, Provider: Name, Sandbox: sb.ID, Name: sb.Name,
		State: sb.State, Reason: sb.Reason, Message: sb.Message,
	}
}

// denialEvent returns an event if there are more refused connections than in seen.
func (p *Provider) denialEvent(sb core.Sandbox, seen map[string]int) (core.Event, bool) {
	if sb.State != core.StateRunning {
		return core.Event{}, false
	}
	state, err := p.store.ReadState(sb.ID)
	if err != nil {
		return core.Event{}, false
	}
	before := seen[sb.ID]
	seen[sb.ID] = state.Denied // less than before after a restart
	if state.Denied <= before || state.Denial == nil {
		return core.Event{}, false
	}
	return core.Event{
		Time: state.Denial.Time, Type: core.EventDenial, Provider: Name, Sandbox: sb.ID, Name: sb.Name, Denial: state.Denial,
	}, true
}
