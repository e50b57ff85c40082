//go:build linux

package modal_test

import (
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providertest"
)

// The test server enforces a new policy on a running sandbox.
func TestPolicyChangeHolds(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	spec := core.Spec{Name: core.NewName(), Network: core.Network{Mode: core.NetworkAll}}
	sb, err := p.Launch(t.Context(), spec, core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	reader, ok := r.backend.(core.DenialReader)
	if !ok {
		t.Fatal("the backend reports no refusals")
	}
	// A denied connection is answered at once, even on a slow machine. An allowed one gets no answer from that address.
	refusals := func(patience string) (count int) {
		t.Helper()
		process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"bash", "-c", "timeout " + patience +
			" bash -c '> /dev/tcp/192.0.2.1/80'"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = process.Close() }()
		if _, err := process.Wait(providertest.Patient(t)); err != nil {
			t.Fatal(err)
		}
		behind, err := r.backend.List(t.Context())
		if err != nil || len(behind) != 1 {
			t.Fatalf("behind it are %+v, %v", behind, err)
		}
		denials, err := reader.Denials(t.Context(), behind[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range denials {
			count += d.Count
		}
		return count
	}
	for i, step := range []struct {
		network  core.Network
		patience string // seconds
		want     int    // total denials
	}{
		{core.Network{Mode: core.NetworkAll}, "1", 0},
		{core.Network{Mode: core.NetworkNone}, "60", 1},
		{core.Network{Mode: core.NetworkAllow, Allow: []string{"192.0.2.0/24"}}, "1", 1},
		{core.Network{Mode: core.NetworkAllow, Allow: []string{"198.51.100.0/24"}}, "60", 2},
	} {
		if _, err := p.SetNetwork(t.Context(), sb.ID, step.network); err != nil {
			t.Fatal(err)
		}
		if got := refusals(step.patience); got != step.want {
			t.Errorf("after change %d: %d refusals, not %d", i, got, step.want)
		}
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
}
