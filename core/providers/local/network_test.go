//go:build linux

package local

import (
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// refused tries the addresses of a listed and an unlisted machine, and returns those that the policy refused. Neither
// machine exists in the network.
func refused(t *testing.T, p *Provider, id string) []string {
	t.Helper()
	before := attempts(t, p, id)
	output(t, p, id, `python3 -c '
import socket
for address in ("192.0.2.1", "198.51.100.7"):
    s = socket.socket(); s.settimeout(0.3)
    try: s.connect((address, 80))
    except OSError: pass
'`)
	var list []string
	after := attempts(t, p, id)
	for address, count := range after {
		if count > before[address] {
			list = append(list, address)
		}
	}
	slices.Sort(list)
	return list
}

func attempts(t *testing.T, p *Provider, id string) map[string]int {
	t.Helper()
	denials, err := p.Denials(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, d := range denials {
		counts[d.Address] += d.Count
	}
	return counts
}

func TestPolicyChangesWhileItRuns(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) { spec.Persist = true })
	all := []string{"192.0.2.1", "198.51.100.7"}
	listed := core.Network{Mode: core.NetworkAllow, Allow: []string{"198.51.100.0/24"}}
	holds := func(what, id string, want []string) {
		t.Helper()
		if got := refused(t, p, id); !slices.Equal(got, want) {
			t.Errorf("%s: refused are %v, not %v", what, got, want)
		}
	}
	holds("launched with none", sb.ID, all)
	for _, change := range []struct {
		network core.Network
		want    []string
	}{{core.Network{Mode: core.NetworkAll}, nil}, {core.Network{Mode: core.NetworkNone}, all}, {listed, all[:1]}} {
		changed, err := p.SetNetwork(t.Context(), sb.ID, change.network)
		if err != nil || changed.Spec.Network.Mode != change.network.Mode {
			t.Fatalf("%+v: %+v, %v", change.network, changed.Spec.Network, err)
		}
		holds(string(change.network.Mode), sb.ID, change.want)
	}
	fork := forkOf(t, p, sb.ID)
	holds("in a fork", fork.ID, all[:1])
	if err := p.Stop(t.Context(), sb.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	holds("after a stop", sb.ID, all[:1])
}

// A stand-in belongs to its name in copies, too, because processes remember addresses.
func TestStandInsInCopies(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) {
		spec.Network = core.Network{Mode: core.NetworkAllow, Allow: []string{"good.example"}}
	})
	if _, err := p.Checkpoint(t.Context(), sb.ID, "names"); err != nil {
		t.Fatal(err)
	}
	// No resolver answers here, so the test writes the name into the checkpoint.
	path := filepath.Join(p.opts.StateDir, Name, "checkpoints", "names", "checkpoint.json")
	var file keptFile
	if _, err := store.ReadJSON(path, &file); err != nil {
		t.Fatal(err)
	}
	file.Kept.Names = map[string]netip.Addr{"good.example": netip.MustParseAddr("198.19.0.1")}
	if err := store.WriteJSON(path, file, true); err != nil {
		t.Fatal(err)
	}
	again := launched(t, p, func(spec *core.Spec) { spec.Checkpoint, spec.Network = "names", sb.Spec.Network })
	for _, id := range []string{again.ID, forkOf(t, p, again.ID).ID} {
		output(
			t, p, id, `python3 -c 'import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("198.19.0.1", 443))'`,
		)
		within(t, "the name is known", func() bool {
			denials, err := p.Denials(t.Context(), id)
			return err == nil && len(denials) == 1 && denials[0].Name == "good.example" && denials[0].Protocol == "udp"
		})
	}
}
