//go:build linux

package modal_test

import (
	"context"
	"io"
	"testing"
	"time"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
)

// distance is the latency of a call to Modal in the tests and benchmarks of round trips.
const distance = 80 * time.Millisecond

// rawExec runs a command like a program that uses only the SDK, with a new client and the sandbox's id.
func rawExec(ctx context.Context, id string) error {
	client, err := sdk.NewClient()
	if err != nil {
		return err
	}
	defer client.Close()
	box, err := client.Sandboxes.FromID(ctx, id, nil)
	if err != nil {
		return err
	}
	defer func() { _ = box.Detach() }()
	process, err := box.Exec(ctx, []string{"true"}, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, process.Stdout); err != nil {
		return err
	}
	_, err = process.Wait(ctx, nil)
	return err
}

// ownExec runs a command like a process of sb.
func ownExec(opts modal.Options, id string) func(context.Context) error {
	return func(ctx context.Context) error {
		p := modal.New(opts)
		defer func() { _ = p.Close() }()
		return execTrue(id, nil)(ctx, p)
	}
}

// rounds counts the consecutive rounds of calls. Calls that began within half the distance after the first of them are
// one round.
func rounds(calls []modaltest.Call, distance time.Duration) int {
	count := 0
	var first time.Time
	for _, call := range calls {
		if count == 0 || call.Time.Sub(first) > distance/2 {
			count++
			first = call.Time
		}
	}
	return count
}

// A command through sb needs no more round trips to Modal than one through the SDK. Without a cache it needs at most
// one more. The test counts round trips, because times depend on the machine's load.
func TestExecRoundTrips(t *testing.T) {
	programtest.Long(t)
	r := newRig(t, nil)
	p := modal.New(r.opts)
	id := launched(t, p, spec()).ID
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	const distance = 500 * time.Millisecond // long, because a busy machine delays parallel calls
	r.faults.SetLatency(distance)
	measure := func(exec func(context.Context) error) int {
		r.server.ResetCalls()
		if err := exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		return rounds(r.server.Calls(), distance)
	}
	raw := measure(func(ctx context.Context) error { return rawExec(ctx, id) })
	known := measure(ownExec(r.opts, id))
	unknown := measure(ownExec(modal.Options{CacheDir: t.TempDir()}, id))
	t.Logf("round trips: the SDK %d, sb %d, with nothing remembered %d", raw, known, unknown)
	if known > raw || unknown > raw+1 {
		t.Errorf("sb takes %d round trips, with nothing remembered %d; the SDK takes %d", known, unknown, raw)
	}
}

// BenchmarkExecAtDistance measures the time of the round trips that TestExecRoundTrips counts.
func BenchmarkExecAtDistance(b *testing.B) {
	r := newRig(b, nil)
	p := modal.New(r.opts)
	sb, err := p.Launch(b.Context(), spec(), core.Lease{Created: time.Now()}, nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
	r.faults.SetLatency(distance)
	for _, way := range []struct {
		name string
		exec func(context.Context) error
	}{
		{"sdk", func(ctx context.Context) error { return rawExec(ctx, sb.ID) }},
		{"sb", ownExec(r.opts, sb.ID)},
	} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				if err := way.exec(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
