package core

import (
	"encoding/json"
	"testing"
	"time"
)

// A launch without a lifetime has none, whatever the defaults are, and is refused where a bound is set.
func TestNoTimeout(t *testing.T) {
	day := Defaults{Timeout: Duration(24 * time.Hour), IdleTimeout: Duration(time.Hour)}
	ask := Spec{Name: "open", Provider: "one", Timeout: NoTimeout, IdleTimeout: NoTimeout}
	able := []Capability{CapNoTimeout, CapTimeout, CapIdle}

	s, one, _ := service(t, Options{Defaults: day})
	one.caps.Has = append(one.caps.Has, able...)
	if _, err := s.Launch(t.Context(), ask, LaunchOptions{}); err != nil {
		t.Fatal(err)
	}
	got := one.boxes[len(one.boxes)-1]
	if got.Spec.Timeout != NoTimeout || got.Spec.IdleTimeout != 0 || !got.Lease.Expires.IsZero() {
		t.Errorf("launched with %+v, %+v", got.Spec, got.Lease)
	}

	for name, test := range map[string]struct {
		opts Options
		view Scope
		spec func(*Spec)
		kind Kind
	}{
		"a quota":    {opts: Options{Quotas: Quotas{MaxLifetime: Duration(time.Hour)}}, kind: KindExhausted},
		"a policy":   {view: Scope{Policy: Policy{MaxTimeout: Duration(time.Hour)}}, kind: KindUnauthorized},
		"a budget":   {opts: Options{Prices: map[string]Prices{"one": {Currency: "USD", CPU: 1}}}, spec: func(s *Spec) { s.CPU, s.MaxCost = 1, 5 }, kind: KindExhausted},
		"a provider": {spec: func(s *Spec) { s.Provider = "two" }, kind: KindUnsupported},
	} {
		s, one, _ := service(t, test.opts)
		one.caps.Has = append(one.caps.Has, append(able, CapCPU)...)
		spec := ask.Clone()
		if test.spec != nil {
			test.spec(&spec)
		}
		if _, err := s.Within(test.view).Launch(t.Context(), spec, LaunchOptions{}); err == nil || KindOf(err) != test.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTimeoutText(t *testing.T) {
	for text, want := range map[string]Duration{"0": NoTimeout, "none": NoTimeout, "0s": NoTimeout, "90s": Duration(90 * time.Second), "5": Duration(5 * time.Second)} {
		if got, err := ParseTimeout(text); err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1ns", "never", "-1"} {
		if got, err := ParseTimeout(text); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
	written, err := json.Marshal(Spec{Timeout: NoTimeout})
	if err != nil || string(written) != `{"timeout":"none"}` {
		t.Errorf("%s, %v", written, err)
	}
	var read Spec
	if err := json.Unmarshal(written, &read); err != nil || read.Timeout != NoTimeout {
		t.Errorf("%+v, %v", read, err)
	}
}
