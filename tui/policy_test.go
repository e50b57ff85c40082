package tui

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
)

// The network policy of a running sandbox can be changed only where the provider supports it.
func TestPolicy(t *testing.T) {
	plain := newRig(t, Options{Service: newService(t, fake.New(fake.Options{}))})
	launch(t, plain.m.options.Service, core.Spec{Name: "dev"})
	plain.until("dev is there", plain.hasRow("dev"))
	plain.press("A")
	if len(plain.m.dialogs) != 0 {
		t.Error("the change is offered without the capability")
	}

	r, svc := keeperRig(t)
	box := launch(t, svc, core.Spec{Name: "web"})
	r.until("web is there", r.hasRow("web"))
	change := func(text, notice string, want core.Network) {
		t.Helper()
		r.press("A")
		r.shows("Network policy of web")
		r.press("ctrl+u")
		r.types(text)
		r.press("enter")
		r.shows(notice)
		now, err := svc.Sandboxes.Resolve(t.Context(), box.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, now.Spec.Network); diff != "" {
			t.Error(diff)
		}
	}
	change("none", "network policy of web is none", core.Network{Mode: core.NetworkNone})
	change("pypi.org 10.0.0.0/8", "network policy of web is allow: pypi.org, 10.0.0.0/8",
		core.Network{Mode: core.NetworkAllow, Allow: []string{"pypi.org", "10.0.0.0/8"}})
	r.press("4")
	r.shows("allow: pypi.org, 10.0.0.0/8")

	r.press("A") // the prompt starts with the current policy
	r.types(",a b:c")
	r.shows("neither a domain nor a CIDR")
	r.press("enter")
	if len(r.m.dialogs) != 1 {
		t.Error("the prompt accepted an invalid policy")
	}
	r.press("ctrl+u")
	r.types("a.example,b.example")
	r.press("ctrl+y")
	r.until("the command is copied", func() bool { return r.clipboard == "sb policy set web --allow a.example,b.example" })
}

// A policy that the provider does not support is an error during typing.
func TestPolicyOfAnotherProvider(t *testing.T) {
	caps := core.Capabilities{Has: []core.Capability{core.CapNetNone}}
	if network, err := parsePolicy(" none ", caps); err != nil || network.Mode != core.NetworkNone {
		t.Errorf("%+v, %v", network, err)
	}
	for _, text := range []string{"internal", "pypi.org"} {
		if _, err := parsePolicy(text, caps); !errors.Is(err, core.KindUnsupported) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The launch form offers the network policies that some provider has.
func TestLaunchFormNetworks(t *testing.T) {
	for _, test := range []struct {
		also []core.Capability
		want []string
	}{
		{nil, []string{"", "none"}},
		{[]core.Capability{core.CapNetAll, core.CapNetInternal}, []string{"", "all", "none", "internal"}},
	} {
		svc := newService(t, fake.New(fake.Options{Also: test.also}))
		r := newRig(t, Options{Service: svc})
		r.shows("no sandboxes")
		r.press("L")
		for _, f := range r.m.dialogs[0].(*launchForm).fields {
			if f.id != "network" {
				continue
			}
			if diff := cmp.Diff(test.want, f.choices); diff != "" {
				t.Error(diff)
			}
		}
	}
	svc := newService(t, fake.New(fake.Options{Also: []core.Capability{core.CapNetInternal}}))
	r := newRig(t, Options{Service: svc})
	r.shows("no sandboxes")
	r.press("L")
	form := r.m.dialogs[0].(*launchForm)
	r.types("inside")
	for form.fields[form.at].id != "network" {
		r.press("down")
	}
	r.press("left") // the last
	r.shows("✓ runs on fake")
	r.press("enter")
	r.until("it is there", r.hasRow("inside"))
	if box, err := svc.Sandboxes.Resolve(t.Context(), "inside"); err != nil ||
		box.Spec.Network.Mode != core.NetworkInternal {
		t.Errorf("%+v, %v", box.Spec.Network, err)
	}
}
