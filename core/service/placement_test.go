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
