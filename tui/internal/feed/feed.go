package feed

import (
	"context"
	"sync"
	"time"
)

// Feed carries items from a goroutine to the dashboard, in batches and at the pace of drawing. The producer never
// blocks. When the dashboard lags, as during a shell, merge bounds the kept items.
type Feed[T any] struct {
	merge func(kept, added []T) []T

	mu    sync.Mutex
	kept  []T
	ended bool
	ready chan struct{} // holds a token while there are items
}

// framePace is the least time between two batches.
const framePace = 40 * time.Millisecond

// New returns a feed. merge adds items to the kept ones and may drop some; nil keeps all.
func New[T any](merge func(kept, added []T) []T) *Feed[T] {
	if merge == nil {
		merge = func(kept, added []T) []T { return append(kept, added...) }
	}
	return &Feed[T]{merge: merge, ready: make(chan struct{}, 1)}
}

// Put adds items. It does not block.
func (f *Feed[T]) Put(items ...T) {
	f.mu.Lock()
	f.kept = f.merge(f.kept, items)
	f.mu.Unlock()
	f.wake()
}

// end closes the feed: no put follows.
func (f *Feed[T]) end() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.wake()
}

func (f *Feed[T]) wake() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// Take waits for a batch. open is false for the last one, and when ctx ended.
func (f *Feed[T]) Take(ctx context.Context) (batch []T, open bool) {
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
