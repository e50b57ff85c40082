package image_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
)

// withLayer returns an image with another layer of empty files.
func withLayer(t *testing.T, img v1.Image, entries ...tar.Header) v1.Image {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.Mode = 0o755
		if err := w.WriteHeader(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.AppendLayers(img, l); err != nil {
		t.Fatal(err)
	}
	return img
}

// TestExtended pulls an image with extended attributes. The pull names the files that lose them, and a later one does
// not.
func TestExtended(t *testing.T) {
	registry, store := serve(t), open(t, filepath.Join(t.TempDir(), "images"))
	file := func(name, attribute string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, PAXRecords: map[string]string{attribute: "value"}}
	}
	const capability = "SCHILY.xattr.security.capability"
	lower := []tar.Header{
		file("bin/ping", capability),
		{Name: "bin/pong", Typeflag: tar.TypeLink, Linkname: "bin/ping"},
		file("bin/gone", capability),
		file("bin/old", capability),
		file("labeled", "SCHILY.xattr.security.selinux"),
		{Name: "dir", Typeflag: tar.TypeDir, PAXRecords: map[string]string{"LIBARCHIVE.xattr.user.a": "dmFsdWU="}},
		{Name: "later", Typeflag: tar.TypeDir},
	}
	for i := range 4 {
		lower = append(lower, file(fmt.Sprintf("many/%d", i), "SCHILY.xattr.user.mine"))
	}
	img := withLayer(t, made(t, runtime.GOARCH), lower...)
	img = withLayer(t, img, tar.Header{Name: "bin/.wh.gone", Typeflag: tar.TypeReg},
		tar.Header{Name: "bin/old", Typeflag: tar.TypeReg},
		tar.Header{Name: "later", Typeflag: tar.TypeDir, PAXRecords: map[string]string{capability: "value"}})
	ref := registry.push(t, img, "a:v1")
	var warnings []string
	opts := image.PullOptions{Policy: core.PullAlways, Progress: func(p core.Progress) {
		if p.Log {
			warnings = append(warnings, p.Step)
		}
	}}
	for range 2 {
		pulled, err := store.Pull(t.Context(), ref, opts)
		if err != nil {
			t.Fatal(err)
		}
		want := core.LeftOut{Count: 7, First: []string{"/bin/ping", "/dir", "/later", "/many/0", "/many/1"}}
		if diff := cmp.Diff(want, pulled.NoXattrs); diff != "" {
			t.Error(diff)
		}
	}
	const names = "/bin/ping, /dir, /later, /many/0, /many/1 and 2 more"
	want := []string{ref + ": extended attributes, such as file capabilities, are not kept: " + names}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
}
