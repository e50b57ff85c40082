package erofs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core/providers/local/image/erofs"
)

func create(t testing.TB) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func add(t testing.TB, dir *erofs.Node, name string, child *erofs.Node) *erofs.Node {
	t.Helper()
	if err := dir.Add(name, child); err != nil {
		t.Fatal(err)
	}
	return child
}

func file(t testing.TB, w *erofs.Writer, content string) *erofs.Node {
	t.Helper()
	n, err := w.File(erofs.Attr{Mode: erofs.TypeFile | 0o644, ModTime: time.Unix(1, 2)}, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// list describes each file of a file system, with its content.
func list(t testing.TB, from io.ReaderAt, root *erofs.Node) map[string]string {
	t.Helper()
	all := map[string]string{}
	var walk func(path string, n *erofs.Node)
	walk = func(path string, n *erofs.Node) {
		a := n.Attr()
		text := fmt.Sprintf("%o %d:%d %d:%d %q", a.Mode, a.UID, a.GID, a.Major, a.Minor, a.Target)
		if n.IsFile() {
			content, err := io.ReadAll(erofs.Content(from, n))
			if err != nil {
				t.Fatal(err)
			}
			text += fmt.Sprintf(" %d %d %.20q", len(content), a.ModTime.UnixNano(), content)
		}
		all[path] = text
		for name, child := range n.Children {
			walk(path+"/"+name, child)
		}
	}
	walk("", root)
	return all
}

func sample(t testing.TB, w *erofs.Writer) {
	t.Helper()
	dir := add(t, w.Root, "dir", erofs.NewNode(erofs.Attr{Mode: erofs.TypeDir | 0o1777, UID: 7, GID: 65535}))
	for i := range 300 {
		add(t, dir, fmt.Sprintf("%d-%s", i, strings.Repeat("n", i%200)), file(t, w, strings.Repeat("x", i*7)))
	}
	linked := add(t, w.Root, "one", file(t, w, "linked"))
	add(t, dir, "other", linked)
	add(t, w.Root, "link", erofs.NewNode(erofs.Attr{Mode: erofs.TypeLink, Target: "dir/../one"}))
	add(t, w.Root, "far", erofs.NewNode(erofs.Attr{Mode: erofs.TypeLink, Target: strings.Repeat("t", 4095)}))
	add(t, w.Root, "disk", erofs.NewNode(erofs.Attr{Mode: erofs.TypeBlock | 0o600, Major: 259, Minor: 70000}))
	add(t, w.Root, "fifo", erofs.NewNode(erofs.Attr{Mode: erofs.TypeFIFO | 0o600}))
}

func TestReopen(t *testing.T) {
	f := create(t)
	w := erofs.Create(f)
	sample(t, w)
	if err := w.Finish([16]byte{1}); err != nil {
		t.Fatal(err)
	}
	want := list(t, f, w.Root)
	root, err := erofs.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, list(t, f, root)); diff != "" {
		t.Fatal(diff)
	}
	before, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	// A finished file can be finished again, by the same writer and by another, and stays the same.
	again, err := erofs.Reopen(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []*erofs.Writer{w, again} {
		if err := w.Finish([16]byte{1}); err != nil {
			t.Fatal(err)
		}
		if after, _ := os.ReadFile(f.Name()); !bytes.Equal(before, after) {
			t.Error("another Finish changed the file")
		}
	}
	dir := again.Root.Child("dir")
	if again.Remove(again.Root, "one") != 0 || again.Remove(dir, "other") != 1 {
		t.Error("hard links are counted wrongly")
	}
	add(t, again.Root, "zeros", file(t, again, strings.Repeat("\x00", 20000)+"end"))
	if gone := again.Remove(again.Root, "dir"); gone != 301 {
		t.Errorf("%d files are gone", gone)
	}
	if err := again.Finish([16]byte{2}); err != nil {
		t.Fatal(err)
	}
	want = list(t, f, again.Root)
	if root, err = erofs.Read(f); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, list(t, f, root)); diff != "" {
		t.Error(diff)
	}
	zeros, _ := io.ReadAll(erofs.Content(f, root.Child("zeros")))
	if string(zeros) != strings.Repeat("\x00", 20000)+"end" {
		t.Error("old bytes are in new holes")
	}
	if info, err := f.Stat(); err != nil || info.Size() > int64(len(before))+64<<10 {
		t.Errorf("the file has grown to %d bytes, %v", info.Size(), err)
	}
}

func TestFind(t *testing.T) {
	w := erofs.Create(create(t))
	sample(t, w)
	link := func(name, to string) {
		add(t, w.Root, name, erofs.NewNode(erofs.Attr{Mode: erofs.TypeLink, Target: to}))
	}
	link("up", "../../../dir")
	link("absolute", "/dir")
	link("loop", "loop")
	one := w.Root.Child("one")
	for _, path := range []string{"one", "/one", "dir/other", "link", "up/other", "absolute/../one", "../one"} {
		if n, err := erofs.Find(w.Root, path, true); err != nil || n != one {
			t.Errorf("%s: %v, %v", path, n, err)
		}
	}
	if n, err := erofs.Find(w.Root, "up/../link", false); err != nil || n != w.Root.Child("link") {
		t.Errorf("a link itself: %v, %v", n, err)
	}
	for _, path := range []string{"none", "one/x", "loop", "far", "dir/none/.."} {
		if _, err := erofs.Find(w.Root, path, true); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Any damage is an error or another tree, and never a crash or a loop.
func FuzzRead(f *testing.F) {
	out := create(f)
	w := erofs.Create(out)
	sample(f, w)
	if err := w.Finish([16]byte{1}); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(out.Name())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(len(whole)-5000, byte(7), []byte{})
	f.Fuzz(func(t *testing.T, at int, with byte, tail []byte) {
		changed := slices.Clone(whole)
		if at >= 4096 && at < len(changed) {
			changed[at] ^= with
			copy(changed[at:], tail)
		}
		file := create(t)
		if _, err := file.Write(changed); err != nil {
			t.Fatal(err)
		}
		root, err := erofs.Read(file)
		if err != nil && !errors.Is(err, erofs.ErrDamaged) {
			t.Fatal(err)
		}
		if err == nil {
			list(t, file, root)
		}
	})
}
