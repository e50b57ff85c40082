package tui

import (
	"testing"

	"github.com/seed-0724f904/sb/core"
)

func TestProgressKeepsTheNewest(t *testing.T) {
	kept := mergeProgress(nil, []jobProgress{{id: 1}, {id: 2}})
	kept = mergeProgress(kept, []jobProgress{
		{id: 1, Progress: core.Progress{Done: 7}}, {id: 1, Progress: core.Progress{Done: 9}},
	})
	if len(kept) != 2 || kept[0].Done != 9 {
		t.Errorf("%+v", kept)
	}
}
