package service

import (
	"sync"
	"time"

	"github.com/seed-0724f904/sb/core"
)

const (
	// subscriberBuffer is how many events a slow subscriber may be behind.
	subscriberBuffer = 256
	// mustDeliverWait is how long a state change waits for a subscriber that is that far behind.
	mustDeliverWait = 2 * time.Second
)

// broker passes events to the subscribers of this process. A subscriber that lags loses progress events. Other events
// wait a while for it. If that is not enough, they end its subscription, so that it notices the gap.
type broker struct {
	mu     sync.Mutex
	subs   map[*subscription]struct{}
	closed bool
}

type subscription struct {
	events chan core.Event
	done   chan struct{}
	// lagged is closed when the subscriber was too slow.
	lagged chan struct{}
}

func newBroker() *broker { return &broker{subs: map[*subscription]struct{}{}} }

// subscribe returns a subscription that the caller ends with unsubscribe.
func (b *broker) subscribe() *subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	sub := &subscription{
		events: make(chan core.Event, subscriberBuffer), done: make(chan struct{}), lagged: make(chan struct{}),
	}
	if b.closed {
		close(sub.done)
		return sub
	}
	b.subs[sub] = struct{}{}
	return sub
}

func (b *broker) unsubscribe(sub *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.subs[sub]; ok {
		delete(b.subs, sub)
		close(sub.done)
	}
}

func (b *broker) publish(event core.Event) {
	b.mu.Lock()
	subs := make([]*subscription, 0, len(b.subs))
	for sub := range b.subs {
		subs = append(subs, sub)
	}
	b.mu.Unlock()
	for _, sub := range subs {
		select {
		case sub.events <- event:
			continue
		default:
		}
		if event.Type == core.EventProgress {
			continue
		}
		timer := time.NewTimer(mustDeliverWait)
		select {
		case sub.events <- event:
		case <-sub.done:
		case <-timer.C:
			b.drop(sub)
		}
		timer.Stop()
	}
}

func (b *broker) drop(sub *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.subs[sub]; ok {
		delete(b.subs, sub)
		close(sub.lagged)
		close(sub.done)
	}
}

func (b *broker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for sub := range b.subs {
		delete(b.subs, sub)
		close(sub.done)
	}
}
