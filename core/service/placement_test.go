package service_test

import (
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
)

// The error for a missing GPU names the available ones.
func TestGPUThatIsNotThere(t *testing.T) {
	p := fake.New(fake.Options{Also: []core.Capability{core.CapGPU}, GPUs: map[string]int{"A10G": 4, "H100": 8}})
	defer p.Shutdown()
	s := service.New(service.Options{Factories: []core.Factory{p.Factory()}})
	defer func() { _ = s.Close() }()
	for gpu, want := range map[core.GPU]string{
		{Type: "A10G", Count: 5}:  "does not support --gpu A10G:5 (at most 4)",
		{Type: "H1000", Count: 1}: "does not support --gpu H1000 (did you mean H100?)",
		{Type: "XYZ", Count: 1}:   "does not support --gpu XYZ",
		{Type: "A10G", Count: 4}:  "supports all of the spec",
	} {
		placement, err := s.Sandboxes.Explain(t.Context(), core.Spec{GPU: gpu})
		if err != nil || placement.Candidates[0].Why != want {
			t.Errorf("%s: %+v, %v", gpu, placement, err)
		}
	}
}

// A default policy for pulls does not exclude a provider that has none. A policy of the launch does.
func TestPullWhereThereIsNone(t *testing.T) {
	without := fake.New(fake.Options{})
	defer without.Shutdown()
	with := fake.New(fake.Options{Also: []core.Capability{core.CapPull}})
	defer with.Shutdown()
	launch := func(p *fake.Provider, defaultPolicy, policy core.PullPolicy) (core.Sandbox, error) {
		s := service.New(service.Options{
			Factories: []core.Factory{p.Factory()}, Defaults: core.Spec{Pull: defaultPolicy},
		})
		defer func() { _ = s.Close() }()
		return s.Sandboxes.Launch(t.Context(), core.Spec{Pull: policy}, service.LaunchOptions{})
	}
	for _, test := range []struct {
		at                    *fake.Provider
		defaultPolicy, policy core.PullPolicy
		want                  core.PullPolicy
		kind                  core.Kind
	}{
		{at: with, defaultPolicy: core.PullAlways, want: core.PullAlways},
		{at: with, defaultPolicy: core.PullAlways, policy: core.PullMissing},
		{at: with, defaultPolicy: core.PullMissing, policy: core.PullNever, want: core.PullNever},
		{at: without, defaultPolicy: core.PullAlways},
		{at: without, defaultPolicy: core.PullAlways, policy: core.PullMissing},
		{at: without, policy: core.PullAlways, kind: core.KindUnsupported},
		{at: without, policy: core.PullNever, kind: core.KindUnsupported},
		{at: with, policy: "sometimes", kind: core.KindUsage},
	} {
		sb, err := launch(test.at, test.defaultPolicy, test.policy)
		refused := test.kind != core.KindInternal
		if refused && core.KindOf(err) != test.kind || !refused && (err != nil || sb.Spec.Pull != test.want) {
			t.Errorf("%+v: the policy is %q, %v", test, sb.Spec.Pull, err)
		}
	}
}
