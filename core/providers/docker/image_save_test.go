package docker

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// Images of the engine are found by name and saved by id.
func TestImages(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		images := NewImages(Options{Host: e.host, LookupEnv: func(string) (string, bool) { return "", false }})
		id, err := images.ImageID(t.Context(), testImage)
		if err != nil || !strings.HasPrefix(id, "sha256:") {
			t.Fatalf("%q, %v", id, err)
		}
		if _, err := images.ImageID(t.Context(), "localhost/"+core.NewName()); !errors.Is(err, core.KindNotFound) {
			t.Errorf("an image that is missing: %v", err)
		}
		file, err := os.Create(filepath.Join(t.TempDir(), "saved.tar"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		if err := images.SaveImage(t.Context(), id, file); err != nil {
			t.Fatal(err)
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(file); ; {
			header, err := r.Next()
			if err != nil {
				t.Fatalf("the archive has no manifest: %v", err)
			}
			if header.Name == "manifest.json" {
				return
			}
		}
	})
	none := NewImages(Options{Host: "none", LookupEnv: func(string) (string, bool) { return "", false }})
	if _, err := none.ImageID(t.Context(), "a"); !errors.Is(err, core.KindUnavailable) || core.HintOf(err) == "" {
		t.Errorf("without an engine: %v", err)
	}
}
