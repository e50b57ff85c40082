package tui

import (
	"context"
	"sync"
	"time"
)

// feed carries what a goroutine produces to the dashboard, in batches and at a pace that
// drawing can follow. The producer never waits: when the dashboard lags, as while a shell
// has the terminal, merge bounds what is kept.
type feed[T any] struct {
	merge func(kept, added []T) []T

	mu    sync.Mutex
	kept  []T
	ended bool
	ready chan struct{} // holds a token while there is something to take
}

// framePace is the least time between two batches.
const framePace = 40 * time.Millisecond

// newFeed makes a feed. merge adds to what was not taken yet and may drop some; nil keeps all.
func newFeed[T any](merge func(kept, added []T) []T) *feed[T] {
	if merge == nil {
		merge = func(kept, added []T) []T { return append(kept, added...) }
	}
	return &feed[T]{merge: merge, ready: make(chan struct{}, 1)}
}

func (f *feed[T]) put(items ...T) {
	f.mu.Lock()
	f.kept = f.merge(f.kept, items)
	f.mu.Unlock()
	f.wake()
}

// end says that nothing will be put any more.
func (f *feed[T]) end() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.wake()
}

func (f *feed[T]) wake() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// take waits for a batch. open is false when it was the last, or ctx ended.
func (f *feed[T]) take(ctx context.Context) (batch []T, open bool) {
	select {
	case <-f.ready:
	case <-ctx.Done():
		return nil, false
	}
	pause := time.NewTimer(framePace)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	batch, f.kept = f.kept, nil
	select {
	case <-f.ready: // its items are in this batch
	default:
	}
	return batch, !f.ended
}
