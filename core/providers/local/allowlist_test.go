//go:build linux

package local_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/local"
	"github.com/seed-0724f904/sb/core/providertest"
)

// An allow-list allows connections to its entries, and refuses all others at once.
func TestNetworkAllow(t *testing.T) {
	dir := t.TempDir()
	p, err := local.New(local.Options{
		StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"),
		Runtime: filepath.Join(programtest.Dir(), "sb-runtime"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	sb, err := p.Launch(t.Context(), core.Spec{
		Name:    "listed",
		Network: core.Network{Mode: core.NetworkAllow, Allow: []string{"198.51.100.0/24", "*.listed.example"}},
	},
		core.Lease{Owner: core.CurrentOwner("test")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Terminate(context.WithoutCancel(t.Context()), sb.ID) })
	const try = `
import socket
for address in ("192.0.2.1", "198.51.100.7"):
    s = socket.socket(); s.settimeout(0.3)
    try: s.connect((address, 80))
    except OSError: pass
for name in ("other.example", "a.listed.example"):
    try: socket.getaddrinfo(name, 80)
    except OSError: pass
`
	process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"python3", "-c", try}})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := process.Wait(providertest.Patient(t)); err != nil || exit.Code != 0 {
		t.Fatalf("exit %+v, %v", exit, err)
	}
	_ = process.Close()
	reader, _ := p.(core.DenialReader)
	denials, err := reader.Denials(t.Context(), sb.ID)
	if err != nil {
		t.Fatal(err)
	}
	var refused []string
	for _, d := range denials {
		refused = append(refused, d.Name+d.Address)
	}
	for _, want := range []struct {
		what   string
		denied bool
	}{{"192.0.2.1", true}, {"other.example", true}, {"198.51.100.7", false}, {"a.listed.example", false}} {
		if found := slices.ContainsFunc(denials, func(d core.Denial) bool {
			return d.Name == want.what ||
				d.Address == want.what
		}); found != want.denied {
			t.Errorf("%s: refused %v; refused are %v", want.what, found, refused)
		}
	}
}
