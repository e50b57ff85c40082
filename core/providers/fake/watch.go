package fake

import (
	"context"
	"iter"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// broadcast wakes all waiters at a change. Its owner's lock guards it.
type broadcast struct{ changed chan struct{} }

func newBroadcast() broadcast { return broadcast{make(chan struct{})} }

// wait returns a channel that is closed at the next change.
func (b *broadcast) wait() <-chan struct{} { return b.changed }

func (b *broadcast) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// eventLog keeps all events for watchers.
type eventLog struct {
	mu     sync.Mutex
	events []core.Event
	broadcast
}

func newEventLog() *eventLog { return &eventLog{broadcast: newBroadcast()} }

func (l *eventLog) add(event core.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event)
	l.notify()
}

// since returns the events after the first n, and a channel that is closed when there are more.
func (l *eventLog) since(n int) ([]core.Event, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[min(n, len(l.events)):], l.wait()
}

// Watch implements core.Watcher. It reports every change of a sandbox's state.
func (p *Provider) Watch(ctx context.Context) iter.Seq2[core.Event, error] {
	seen := len(first(p.events.since(0)))
	return func(yield func(core.Event, error) bool) {
		for {
			events, more := p.events.since(seen)
			for _, event := range events {
				if !yield(event, nil) {
					return
				}
			}
			seen += len(events)
			select {
			case <-ctx.Done():
				return
			case <-more:
			}
		}
	}
}

func first[A, B any](a A, _ B) A { return a }
