package docker

import (
	"testing"

	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
)

const testImage = dockertest.Image

// load loads the test image into the engine.
func (e testEngine) load(t testing.TB) {
	t.Helper()
	if err := dockertest.Load(t.Context(), e.host); err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
}
