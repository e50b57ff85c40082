package transfer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// The archive has a file's content only under its first name. If that name is excluded, the next one gets the content.
func TestHardLinkToExcludedFile(t *testing.T) {
	from := sender{got: &bytes.Buffer{}, archive: pack(t, tar.Header{Name: "dir/", Typeflag: tar.TypeDir},
		tar.Header{Name: "dir/a", Typeflag: tar.TypeReg},
		tar.Header{Name: "dir/b", Typeflag: tar.TypeLink, Linkname: "dir/a"},
		tar.Header{Name: "dir/c", Typeflag: tar.TypeLink, Linkname: "dir/a"})}
	target := filepath.Join(t.TempDir(), "b")
	if _, err := Copy(
		t.Context(), from, Request{From: Endpoint{"box", "/dir"}, To: Endpoint{"", target}, Exclude: []string{"/a"}},
	); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(target, "c"))
	one, errOne := os.Stat(filepath.Join(target, "b"))
	two, errTwo := os.Stat(filepath.Join(target, "c"))
	if err := errors.Join(err, errOne, errTwo); err != nil || string(text) != "text" || !os.SameFile(one, two) {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Lstat(filepath.Join(target, "a")); !os.IsNotExist(err) {
		t.Errorf("left out: %v", err)
	}
	if _, err := Copy(
		t.Context(), from, Request{From: Endpoint{"box", "/dir"}, To: Endpoint{"other", "/dir"}, Exclude: []string{"/a"}},
	); err != nil {
		t.Fatal(err)
	}
	names := map[string]byte{}
	for r := tar.NewReader(from.got); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names[header.Name+header.Linkname] = header.Typeflag
	}
	if len(names) != 3 || names["b"] != tar.TypeReg || names["cb"] != tar.TypeLink {
		t.Errorf("the other sandbox got %q", names)
	}
}

// A slash after a link means the content of the link's target directory.
func TestPullLinkToDirectory(t *testing.T) {
	from := sender{
		got: &bytes.Buffer{}, links: map[string]string{"/links/one": "two", "/links/two": "/dir", "/loop": "loop"},
		archive: pack(t, tar.Header{Name: "dir/", Typeflag: tar.TypeDir}, tar.Header{Name: "dir/f", Typeflag: tar.TypeReg}),
	}
	target := filepath.Join(t.TempDir(), "b")
	if _, err := Copy(
		t.Context(), from, Request{From: Endpoint{"box", "/links/one/"}, To: Endpoint{"", target}},
	); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(target, "f")); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := Copy(
		t.Context(), from, Request{From: Endpoint{"box", "/links/one/"}, To: Endpoint{"other", "/dir"}},
	); err != nil || from.got.Len() == 0 {
		t.Errorf("into the other sandbox: %v", err)
	}
	if _, err := Copy(
		t.Context(), from, Request{From: Endpoint{"box", "/loop/"}, To: Endpoint{"", target}},
	); !errors.Is(err, core.KindUsage) {
		t.Errorf("a loop: %v", err)
	}
}
