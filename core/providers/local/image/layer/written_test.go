package layer_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/image/layer"
)

// overlay returns an archive of a writable layer, as gVisor writes it.
func overlay(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := h.PAXRecords["content"]
		delete(h.PAXRecords, "content")
		h.Size = int64(len(content))
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func nothing(string) bool { return false }

func TestFromOverlay(t *testing.T) {
	hidden := dir("./d/hidden/")
	hidden.PAXRecords = map[string]string{"SCHILY.xattr.trusted.overlay.opaque": "y"}
	gone := tar.Header{Name: "./gone", Typeflag: tar.TypeChar}
	upper := overlay(t, dir("./"), dir("./d/"), hidden, file("./d/hidden/new", "2"), gone, hardlink("./d/gone", "./gone"),
		file("./d/file", "2"), hardlink("./link", "./d/file"), file("./skipped", "3"), symlink("./s", "/d"))
	var l bytes.Buffer
	skip := func(name string) bool { return name == "skipped" }
	if err := layer.FromOverlay(&l, bytes.NewReader(upper), skip); err != nil {
		t.Fatal(err)
	}
	lower := archive(t, file("gone", "1"), file("d/gone", "1"), file("d/hidden/old", "1"), file("d/stays", "1"))
	image, err := build(t, layer.DefaultLimits(), lower, l.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	const want = "/d/file=2 /d/hidden/new=2 /d/stays=1 /link=2 /s->/d"
	if diff := cmp.Diff(want, summary(read(t, image))); diff != "" {
		t.Error(diff)
	}
	err = layer.FromOverlay(&l, bytes.NewReader(overlay(t, dir("./"), file("./.wh.passwd", ""))), nothing)
	if !errors.Is(err, core.KindUsage) || !strings.Contains(err.Error(), "/.wh.passwd") {
		t.Errorf("a file that would hide another: %v", err)
	}
	err = layer.FromOverlay(&l, strings.NewReader("nonsense"), nothing)
	if err == nil {
		t.Error("a damaged archive was accepted")
	}
}

// A reopened tree is the lowest layer, and its file grows by the changes only.
func TestReopen(t *testing.T) {
	image, err := build(t, layer.DefaultLimits(), archive(t, file("d/a", strings.Repeat("a", 1<<20)), file("d/s/b", "1"),
		hardlink("d/c", "d/a"), symlink("l", "d")))
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	tree, err := layer.Reopen(out, layer.DefaultLimits(), layer.NewMeter(layer.DefaultLimits()))
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range [][]byte{
		archive(t, file("l/new", "2"), file("d/s/.wh..wh..opq", ""), file("d/.wh.c", "")),
		archive(t, file("l/new", "3"), file("d/s/x", "3")),
	} {
		if err := tree.Apply(t.Context(), bytes.NewReader(l)); err != nil {
			t.Fatal(err)
		}
		if err := tree.Finish([16]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		check(t, image)
	}
	all := read(t, image)
	all["/d/a"] = strings.Replace(all["/d/a"], strings.Repeat("a", 1<<20), "long", 1)
	if diff := cmp.Diff("/d/a=long /d/new=3 /d/s/x=3 /l->d", summary(all)); diff != "" {
		t.Error(diff)
	}
	if info, err := out.Stat(); err != nil || info.Size() > 1<<20+64<<10 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}

func FuzzFromOverlay(f *testing.F) {
	gone := tar.Header{Name: "g", Typeflag: tar.TypeChar}
	f.Add(overlay(f, dir("./"), file("./d/a", "x"), hardlink("./b", "./d/a"), gone))
	f.Fuzz(func(t *testing.T, upper []byte) {
		var l bytes.Buffer
		if layer.FromOverlay(&l, bytes.NewReader(upper), nothing) != nil {
			return
		}
		_, _ = build(t, layer.DefaultLimits(), archive(t, file("lower", "1")), l.Bytes())
	})
}

// The order of a writable layer is random, and so is the name that has the content of a file with several names.
func TestSort(t *testing.T) {
	long := strings.Repeat("n", 200) + "\xff"
	name := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o4750, Uid: 7}
	}
	one := archive(t, dir("./"), dir("b/"), file("b/z", "2"), hardlink("b/a", "b/z"), hardlink("a", "b/z"),
		file("b/.wh.gone", ""), dir("b-/"), name(long), symlink("s", "x"), hardlink("r", "s"))
	other := archive(t, dir("./"), symlink("r", "x"), hardlink("s", "r"), dir("b-/"), dir("b/"), file("b/a", "2"),
		hardlink("b/z", "b/a"), file("b/.wh.gone", ""), hardlink("a", "b/a"), name(long))
	var sorted [2]bytes.Buffer
	for i, l := range [][]byte{one, other} {
		if err := layer.Sort(&sorted[i], bytes.NewReader(l)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(sorted[0].Bytes(), sorted[1].Bytes()) {
		t.Error("the same files give other bytes")
	}
	var names []string
	for in := tar.NewReader(&sorted[0]); ; {
		header, err := in.Next()
		if err != nil {
			break
		}
		names = append(names, header.Name+">"+header.Linkname)
	}
	const want = "./> a> b/> b-/> b/.wh.gone> b/a>a b/z>a "
	if got := strings.Join(names, " "); got != want+long+"> r>x s>r" {
		t.Errorf("%q", got)
	}
	for what, bad := range map[string][]byte{
		"a link to nothing": archive(t, hardlink("a", "b")), "no archive": []byte(strings.Repeat("x", 1024)),
		"a cut archive": archive(t, file("a", strings.Repeat("x", 2000)))[:1024],
	} {
		if err := layer.Sort(&bytes.Buffer{}, bytes.NewReader(bad)); !errors.Is(err, core.KindUsage) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
