package docker

import (
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// What a launch refuses is not said to be held.
func TestNamesAreNotHeld(t *testing.T) {
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	for allowed, want := range map[string]core.Strength{"192.0.2.0/24": core.Full, "pypi.org": core.Unenforced} {
		list, err := p.(core.Enforcer).Enforcement(t.Context(), core.Spec{Network: core.Network{Mode: core.NetworkAllow, Allow: []string{allowed}}})
		if err != nil || len(list) != 1 || list[0].Strength != want {
			t.Errorf("%s: %+v, %v", allowed, list, err)
		}
	}
}
