package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image"
	"github.com/seed-0724f904/sb/core/providers/local/image/layer"
)

// TestExport exports an image in both formats, and imports it from the archives.
func TestExport(t *testing.T) {
	registry, store := serve(t), open(t, t.TempDir())
	ref := registry.push(t, image1(t, "old content", "new content"), "a:v1")
	_, err := store.Pull(t.Context(), ref, image.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []core.ImageFormat{core.ImageOCI, core.ImageDocker} {
		t.Run(string(format), func(t *testing.T) {
			var first, again bytes.Buffer
			opts := image.ExportOptions{Format: format, Names: []string{"app:1"}}
			try(t, store.Export(t.Context(), ref, opts, &first), store.Export(t.Context(), ref, opts, &again))
			if !bytes.Equal(first.Bytes(), again.Bytes()) {
				t.Error("two exports differ")
			}
			file := filepath.Join(t.TempDir(), "image.tar")
			try(t, os.WriteFile(file, first.Bytes(), 0o600))
			other := open(t, t.TempDir())
			if made, err := tarball.ImageFromPath(file, nil); err != nil {
				t.Error(err)
			} else if layers, err := made.Layers(); err != nil || len(layers) != 1 {
				t.Errorf("%d layers, %v", len(layers), err)
			}
			made, err := other.Import(t.Context(), file, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			has(t, made, "new content")
			c := made.Config
			if !slices.Equal(made.Refs, []string{"app:1"}) || c.Entrypoint[0] != "/bin/sh" || c.User != "1:2" ||
				c.StopSignal != "SIGINT" || c.Labels["l"] != "v" || len(c.ExposedPorts) != 2 {
				t.Errorf("%+v", made)
			}
			if _, err := other.Get(t.Context(), "app:1"); err != nil {
				t.Error(err)
			}
			// The files no longer change, and neither does the archive.
			var third bytes.Buffer
			try(t, other.Export(t.Context(), "app:1", opts, &third))
			if !bytes.Equal(first.Bytes(), third.Bytes()) {
				t.Error("the export of the import differs")
			}
		})
	}
	wantKind(t, store.Export(t.Context(), "none:1", image.ExportOptions{}, &bytes.Buffer{}), core.KindNotFound)
	garbage := filepath.Join(t.TempDir(), "garbage")
	try(t, os.WriteFile(garbage, []byte("garbage"), 0o600))
	wantKind(t, second(store.Import(t.Context(), garbage, "a:1", nil)), core.KindUsage)
	wantKind(t, second(store.Import(t.Context(), garbage, "UPPER", nil)), core.KindUsage)
	_, err = store.Import(t.Context(), t.TempDir(), "", nil)
	wantKind(t, err, core.KindUsage, "names no image")
}

// TestArchiveKeeps exports files of every kind.
func TestArchiveKeeps(t *testing.T) {
	at := time.Unix(1_700_000_000, 123_000_000)
	entries := []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: at},
		{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o1777, Uid: 5, Gid: 6, ModTime: at},
		{Name: "bin/su", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 65534, Gid: 70000, ModTime: at},
		{Name: "bin/su2", Typeflag: tar.TypeLink, Linkname: "bin/su"},
		{Name: "dev/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: at},
		{Name: "dev/null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1, Devminor: 300, ModTime: at},
		{Name: "dev/sda", Typeflag: tar.TypeBlock, Mode: 0o660, Devmajor: 8, Devminor: 1, ModTime: at},
		{Name: "fifo", Typeflag: tar.TypeFifo, Mode: 0o600, ModTime: at},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "bin/su", Mode: 0o777, ModTime: at},
		{Name: "n\xff\xfe" + strings.Repeat("n", 200), Typeflag: tar.TypeReg, Mode: 0o644, ModTime: at},
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		h.Format = tar.FormatPAX
		try(t, w.WriteHeader(&h))
	}
	try(t, w.Close())
	file := filepath.Join(t.TempDir(), "rootfs.erofs")
	out, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	meter := layer.NewMeter(layer.DefaultLimits())
	tree := layer.New(out, layer.DefaultLimits(), meter)
	try(t, tree.Apply(t.Context(), meter.Packed(&b)), tree.Finish([16]byte{}))
	var archive bytes.Buffer
	try(t, layer.Archive(t.Context(), out, &archive))
	in := tar.NewReader(&archive)
	for _, want := range entries {
		got, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		if got.Name != want.Name || got.Typeflag != want.Typeflag || got.Linkname != want.Linkname ||
			want.Typeflag != tar.TypeLink && (got.Mode != want.Mode || got.Uid != want.Uid || got.Gid != want.Gid ||
				!got.ModTime.Equal(want.ModTime) || got.Devmajor != want.Devmajor || got.Devminor != want.Devminor) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// TestTag names an image, and moves a name.
func TestTag(t *testing.T) {
	registry, store := serve(t), open(t, t.TempDir())
	one, err := store.Pull(t.Context(), registry.push(t, image1(t, "one"), "a:v1"), image.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	two, err := store.Pull(t.Context(), registry.push(t, image1(t, "two"), "a:v2"), image.PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []image.Image{one, two} {
		try(t, store.Tag(t.Context(), of.ID, "app:1"))
		if got, err := store.Get(t.Context(), "app:1"); err != nil || got.ID != of.ID {
			t.Errorf("%+v, %v", got, err)
		}
	}
	wantKind(t, store.Tag(t.Context(), "none:1", "app:2"), core.KindNotFound)
	for _, bad := range []string{"UPPER", "", "oci:x", "a@" + one.ID} {
		wantKind(t, store.Tag(t.Context(), one.ID, bad), core.KindUsage)
	}
}

// TestRemoveFree removes the images by their last use, and none that is used.
func TestRemoveFree(t *testing.T) {
	registry, store := serve(t), open(t, t.TempDir())
	var pulled []image.Image
	for _, name := range []string{"a:v1", "a:v2", "a:v3"} {
		one, err := store.Pull(t.Context(), registry.push(t, image1(t, name), name), image.PullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pulled = append(pulled, one)
		old := time.Now().Add(-time.Hour)
		try(t, os.Chtimes(filepath.Join(filepath.Dir(one.Path), "used"), old, old))
	}
	release, err := store.Hold(t.Context(), pulled[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	list, err := store.ByUse(t.Context())
	if err != nil || len(list) != 3 || list[2].ID != pulled[0].ID {
		t.Fatalf("%+v, %v", list, err)
	}
	wantKind(t, store.RemoveFree(t.Context(), pulled[0].ID, unused), core.KindConflict)
	release()
	used := core.Errorf(core.KindConflict, "test", "", "it is used")
	if err := store.RemoveFree(t.Context(), pulled[0].ID, func(string) error { return used }); !errors.Is(err, used) {
		t.Error(err)
	}
	try(t, store.RemoveFree(t.Context(), pulled[0].ID, unused))
	wantKind(t, store.RemoveFree(t.Context(), pulled[0].ID, unused), core.KindNotFound)
}
