package service

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/price"
)

// A launch with NoTimeout ignores the defaults' lifetimes. It fails if a quota, a policy or a budget bounds them.
func TestNoTimeout(t *testing.T) {
	day := core.Spec{Timeout: core.Duration(24 * time.Hour), IdleTimeout: core.Duration(time.Hour)}
	ask := core.Spec{Name: "open", Provider: "one", Timeout: core.NoTimeout, IdleTimeout: core.NoTimeout}
	able := []core.Capability{core.CapNoTimeout, core.CapTimeout, core.CapIdle}

	s, one, _ := service(t, Options{Defaults: day})
	one.caps.Has = append(one.caps.Has, able...)
	if _, err := s.Sandboxes.Launch(t.Context(), ask, LaunchOptions{}); err != nil {
		t.Fatal(err)
	}
	got := one.boxes[len(one.boxes)-1]
	if got.Spec.Timeout != core.NoTimeout || got.Spec.IdleTimeout != 0 || !got.Lease.Expires.IsZero() {
		t.Errorf("launched with %+v, %+v", got.Spec, got.Lease)
	}

	for name, test := range map[string]struct {
		opts Options
		view Scope
		spec func(*core.Spec)
		kind core.Kind
	}{
		"a quota":  {opts: Options{Quotas: Quotas{MaxLifetime: core.Duration(time.Hour)}}, kind: core.KindExhausted},
		"a policy": {view: Scope{Policy: LaunchPolicy{MaxTimeout: core.Duration(time.Hour)}}, kind: core.KindUnauthorized},
		"a budget": {opts: Options{Prices: map[string]price.Table{"one": {Currency: "USD", CPU: 1}}}, spec: func(
			s *core.Spec,
		) {
			s.CPU, s.MaxCost = 1, 5
		}, kind: core.KindExhausted},
		"a provider": {spec: func(s *core.Spec) { s.Provider = "two" }, kind: core.KindUnsupported},
	} {
		s, one, _ := service(t, test.opts)
		one.caps.Has = append(one.caps.Has, append(able, core.CapCPU)...)
		spec := ask.Clone()
		if test.spec != nil {
			test.spec(&spec)
		}
		if _, err := s.Within(test.view).Sandboxes.Launch(t.Context(), spec, LaunchOptions{}); !errors.Is(err, test.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTimeoutText(t *testing.T) {
	for text, want := range map[string]core.Duration{
		"0": core.NoTimeout, "none": core.NoTimeout, "0s": core.NoTimeout, "90s": core.Duration(90 * time.Second),
		"5": core.Duration(5 * time.Second),
	} {
		if got, err := core.ParseTimeout(text); err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1ns", "never", "-1"} {
		if got, err := core.ParseTimeout(text); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
	written, err := json.Marshal(core.Spec{Timeout: core.NoTimeout})
	if err != nil || string(written) != `{"timeout":"none"}` {
		t.Errorf("%s, %v", written, err)
	}
	var read core.Spec
	if err := json.Unmarshal(written, &read); err != nil || read.Timeout != core.NoTimeout {
		t.Errorf("%+v, %v", read, err)
	}
}
