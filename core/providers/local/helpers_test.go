//go:build linux

package local

import (
	"strconv"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// within polls until holds returns true.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("it never came to pass: %s", what)
		}
	}
}

func leaseOf(id string) store.Lease {
	return store.Lease{
		ID: id, Spec: core.Spec{Name: "broken"}, Lease: core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()},
	}
}
