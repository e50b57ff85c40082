package graph

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpark(t *testing.T) {
	for _, test := range []struct {
		values []float64
		top    float64
		width  int
		want   string
	}{
		{nil, 100, 3, "   "},
		{[]float64{0, 50, 100}, 100, 3, " ▄█"},
		{[]float64{0.001, 1000, -1}, 100, 4, " ▁█ "},
		{[]float64{1, 2, 3, 4}, 4, 2, "▆█"},
		{[]float64{1}, 0, 2, "  "},
		{[]float64{math.NaN()}, 1, 1, " "},
	} {
		if got := Spark(test.values, test.top, test.width); got != test.want {
			t.Errorf("Spark(%v, %v, %d) = %q, want %q", test.values, test.top, test.width, got, test.want)
		}
	}
}

func TestArea(t *testing.T) {
	want := []string{
		"   █",
		"  ▄█",
		" ███",
	}
	if diff := cmp.Diff(want, Area([]float64{0, 1, 1.5, 3}, 3, 4, 3)); diff != "" {
		t.Error(diff)
	}
}
