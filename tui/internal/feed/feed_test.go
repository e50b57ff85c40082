package feed

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFeedGathersAndPaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New[int](nil)
		f.Put(1)
		begin := time.Now()
		go func() {
			time.Sleep(framePace / 2)
			f.Put(2, 3)
		}()
		batch, open := f.Take(t.Context())
		if diff := cmp.Diff([]int{1, 2, 3}, batch); diff != "" || !open || time.Since(begin) != framePace {
			t.Errorf("open %v after %s: %s", open, time.Since(begin), diff)
		}
		f.Put(4)
		f.end()
		if batch, open := f.Take(t.Context()); open || len(batch) != 1 {
			t.Errorf("the end: %v, %v", batch, open)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if batch, open := New[int](nil).Take(ctx); open || batch != nil {
			t.Errorf("canceled: %v, %v", batch, open)
		}
	})
}

// A log that is not drawn keeps a bounded number of lines and counts the lost ones.
func TestHiddenLog(t *testing.T) {
	f := NewLog(func() {})
	line := LogLine{Text: "0123456789"}
	const total = 4 * MaxLogLines
	for range total / 100 {
		batch := LogBatch{}
		for range 100 {
			batch.Lines = append(batch.Lines, line)
			batch.Bytes += len(line.Text)
		}
		f.Put(batch)
	}
	batches, _ := f.Take(t.Context())
	if len(batches) != 1 {
		t.Fatalf("%d batches, want 1", len(batches))
	}
	batch := batches[0]
	kept := len(batch.Lines)
	if kept > MaxLogLines || kept+batch.Lost != total || batch.Bytes != kept*len(line.Text) {
		t.Errorf("%d lines, %d lost, %d bytes", kept, batch.Lost, batch.Bytes)
	}
}
