package service

import (
	"context"
	"iter"
	"sync"

	"github.com/seed-0724f904/sb/core"
)

// Events yields events until ctx ends. They are operations and state changes of this process, events of the providers,
// and operations of other processes from the audit log. An error does not end the sequence unless it is the last item.
func (s Records) Events(ctx context.Context) iter.Seq2[core.Event, error] {
	return func(yield func(core.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		sub := s.broker.subscribe()
		type item struct {
			event core.Event
			err   error
		}
		items := make(chan item)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer s.broker.unsubscribe(sub)
		defer cancel()
		forward := func(seq iter.Seq2[core.Event, error]) {
			wg.Go(func() {
				for event, err := range seq {
					select {
					case items <- item{event, err}:
					case <-ctx.Done():
						return
					}
				}
			})
		}
		for _, lazy := range s.lazyProviders {
			if p, err := lazy.open(); err == nil {
				if watcher, ok := p.(core.Watcher); ok {
					forward(watcher.Watch(ctx))
				}
			}
		}
		if s.audit != nil {
			forward(s.audit.others(ctx))
		}
		for {
			var next item
			select {
			case <-ctx.Done():
				return
			case <-sub.lagged:
				yield(core.Event{}, core.Errorf(core.KindExhausted, "events", "", "the reader of events is too slow"))
				return
			case <-sub.done:
				return
			case next.event = <-sub.events:
			case next = <-items:
			}
			if !yield(next.event, next.err) {
				return
			}
		}
	}
}
