package modal

import (
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// What an image is asked to have is in its recipe, or refused.
func TestRecipeHasAllThatIsAsked(t *testing.T) {
	for name, spec := range map[string]core.Spec{
		"image":      {Python: "3.12", Image: "debian:11"},
		"snapshot":   {Python: "3.12", Snapshot: "im-1"},
		"dockerfile": {Python: "3.12", Dockerfile: "Dockerfile"},
	} {
		if r, err := recipeOf(spec); core.KindOf(err) != core.KindUnsupported || core.HintOf(err) == "" {
			t.Errorf("Python over a %s: %+v, %v", name, r, err)
		}
	}
	if r, err := recipeOf(core.Spec{Python: "3.12", Image: defaultImage}); err != nil || r.Base != "python:3.12-slim" {
		t.Errorf("Python: %+v, %v", r, err)
	}
	for _, snapshot := range []string{"im-1", "kept"} {
		if r, err := recipeOf(core.Spec{Snapshot: snapshot, Pip: []string{"six"}}); err != nil || r.ID+r.Published == "" || len(r.Commands) != 1 {
			t.Errorf("a package over a snapshot: %+v, %v", r, err)
		}
	}
}
