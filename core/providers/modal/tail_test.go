package modal

import (
	"maps"
	"slices"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// A line that arrived in pieces is one line.
func TestTailOffset(t *testing.T) {
	var items []logItem
	for _, piece := range []struct {
		stream core.Stream
		text   string
	}{{core.Stdout, "first\nsec"}, {core.Stderr, "complaint\n"}, {core.Stdout, "ond"}, {core.Stdout, "\nthird\n"}} {
		items = append(items, logItem{record: core.LogRecord{Stream: piece.stream, Data: []byte(piece.text)}})
	}
	for lines, want := range map[int]map[core.Stream]int{
		0: {core.Stdout: 19, core.Stderr: 10},
		1: {core.Stdout: 13, core.Stderr: 10},
		3: {core.Stdout: 6, core.Stderr: 0},
		9: {core.Stdout: 0, core.Stderr: 0},
	} {
		if got := tailOffset(slices.Values(items), lines); !maps.Equal(got, want) {
			t.Errorf("before the last %d lines are %v, want %v", lines, got, want)
		}
	}
}
