package docker

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
	"github.com/seed-0724f904/sb/core/providers/local/image"
)

// An image that sb stores on this machine loads into engines and comes back from them.
func TestImagesTravel(t *testing.T) {
	name := "localhost/sb-test-travel/" + strings.ToLower(core.NewName()) + ":1"
	archive, err := dockertest.Archive(name)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "busybox.tar")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := image.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Import(t.Context(), file, name, nil); err != nil {
		t.Fatal(err)
	}
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		for _, format := range []core.ImageFormat{core.ImageDocker, core.ImageOCI} {
			var b bytes.Buffer
			if err := store.Export(t.Context(), name, image.ExportOptions{Format: format}, &b); err != nil {
				t.Fatal(err)
			}
			exported := filepath.Join(t.TempDir(), string(format))
			if err := os.WriteFile(exported, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			made, err := p.ImportImage(t.Context(), exported, name, nil)
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			other := strings.Replace(name, "travel", "other", 1)
			if err := p.TagImage(t.Context(), name, other); err != nil {
				t.Error(err)
			}
			details, err := p.InspectImage(t.Context(), name)
			if err != nil || details.ID != made.ID || !slices.Contains(details.Names, other) || len(details.Layers) != 1 ||
				!slices.Contains(details.Env, "FROM_IMAGE=yes") {
				t.Errorf("%s: %+v, %v", format, details, err)
			}
			b.Reset()
			if err := p.ExportImage(t.Context(), name, core.ImageDocker, &b, nil); err != nil {
				t.Fatal(err)
			}
			back := filepath.Join(t.TempDir(), "back.tar")
			if err := os.WriteFile(back, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := store.Import(t.Context(), back, "back:1", nil); err != nil ||
				!slices.Contains(got.Config.Env, "FROM_IMAGE=yes") {
				t.Errorf("%s back: %+v, %v", format, got, err)
			}
			for _, remove := range []string{other, name} {
				if err := p.RemoveImage(t.Context(), remove); err != nil {
					t.Errorf("%s: %v", remove, err)
				}
			}
			if err := p.ExportImage(t.Context(), name, core.ImageDocker, &b, nil); !errors.Is(err, core.KindNotFound) {
				t.Errorf("a removed image: %v", err)
			}
		}
	})
}
