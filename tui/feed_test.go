package tui

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
)

func TestFeedGathersAndPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed[int](nil)
		f.put(1)
		begin := time.Now()
		go func() {
			time.Sleep(framePace / 2)
			f.put(2, 3)
		}()
		batch, open := f.take(t.Context())
		if diff := cmp.Diff([]int{1, 2, 3}, batch); diff != "" || !open || time.Since(begin) != framePace {
			t.Errorf("open %v after %s: %s", open, time.Since(begin), diff)
		}
		f.put(4)
		f.end()
		if batch, open := f.take(t.Context()); open || len(batch) != 1 {
			t.Errorf("the end: %v, %v", batch, open)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if batch, open := newFeed[int](nil).take(ctx); open || batch != nil {
			t.Errorf("canceled: %v, %v", batch, open)
		}
	})
}

// A log that is not drawn keeps a bounded number of lines and counts the lost ones.
func TestHiddenLog(t *testing.T) {
	f := newLogFeed(func() {})
	line := logLine{text: "0123456789"}
	const total = 4 * maxLogLines
	for range total / 100 {
		batch := logBatch{}
		for range 100 {
			batch.lines = append(batch.lines, line)
			batch.bytes += len(line.text)
		}
		f.put(batch)
	}
	batches, _ := f.take(t.Context())
	if len(batches) != 1 {
		t.Fatalf("%d batches, want 1", len(batches))
	}
	batch := batches[0]
	kept := len(batch.lines)
	if kept > maxLogLines || kept+batch.lost != total || batch.bytes != kept*len(line.text) {
		t.Errorf("%d lines, %d lost, %d bytes", kept, batch.lost, batch.bytes)
	}
}

func TestProgressKeepsTheNewest(t *testing.T) {
	kept := mergeProgress(nil, []jobProgress{{id: 1}, {id: 2}})
	kept = mergeProgress(kept, []jobProgress{
		{id: 1, Progress: core.Progress{Done: 7}}, {id: 1, Progress: core.Progress{Done: 9}},
	})
	if len(kept) != 2 || kept[0].Done != 9 {
		t.Errorf("%+v", kept)
	}
}
