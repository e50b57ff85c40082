//go:build unix

package transfer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A push keeps or names everything in a tree besides plain files.
func TestPushKeepsSpecialFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	name := func(base string) string { return filepath.Join(dir, base) }
	err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(name("one"), []byte("text"), 0o600),
		os.Link(name("one"), name("two")),
		os.Symlink("/usr/bin/python3", name("absolute")), os.Symlink("../../up", name("up")),
		os.Symlink("nothing", name("dangling")),
		syscall.Mkfifo(name("pipe"), 0o600), syscall.Mknod(name("socket"), syscall.S_IFSOCK|0o600, 0),
		os.WriteFile(name("setuid"), nil, 0o755), os.Chmod(name("setuid"), 0o755|fs.ModeSetuid))
	if err != nil {
		t.Fatal(err)
	}
	box := sender{got: &bytes.Buffer{}}
	result, err := Copy(t.Context(), box, Request{From: Endpoint{"", dir}, To: Endpoint{"box", "/dir"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "socket") {
		t.Errorf("warnings: %q", result.Warnings)
	}
	headers := map[string]*tar.Header{}
	for r := tar.NewReader(box.got); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[filepath.Base(header.Name)] = header
	}
	for base, want := range map[string]struct {
		kind byte
		link string
	}{
		"one": {tar.TypeReg, ""}, "two": {tar.TypeLink, "one"}, "absolute": {tar.TypeSymlink, "/usr/bin/python3"},
		"up": {tar.TypeSymlink, "../../up"}, "dangling": {tar.TypeSymlink, "nothing"}, "pipe": {tar.TypeFifo, ""},
		"setuid": {tar.TypeReg, ""},
	} {
		got := headers[base]
		if got == nil || got.Typeflag != want.kind || got.Linkname != want.link {
			t.Errorf("%s is %+v, want %+v", base, got, want)
		}
	}
	if setuid := headers["setuid"]; setuid == nil || setuid.Mode != 0o4755 {
		t.Errorf("setuid is %+v", setuid)
	}
}

func TestPullNamesLostAttributes(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	const size = 8 << 20
	zeros := make([]byte, size)
	zeros[size/2] = 1
	for _, h := range []tar.Header{
		{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "d/setuid", Typeflag: tar.TypeReg, Mode: 0o4755},
		{Name: "d/pipe", Typeflag: tar.TypeFifo, Mode: 0o644},
		{Name: "d/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3, Mode: 0o666},
		{Name: "d/python", Typeflag: tar.TypeSymlink, Linkname: "/usr/bin/python3"},
		{Name: "d/near", Typeflag: tar.TypeSymlink, Linkname: "setuid"},
		{Name: "d/same", Typeflag: tar.TypeLink, Linkname: "d/setuid"},
		{Name: "d/sparse", Typeflag: tar.TypeReg, Mode: 0o644, Size: size},
		{Name: "d/link", Typeflag: tar.TypeLink, Linkname: "d/python"},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write(zeros); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "d")
	result, err := Copy(
		t.Context(), sender{archive: b.Bytes()}, Request{From: Endpoint{"box", "/d"}, To: Endpoint{"", target}},
	)
	if err != nil {
		t.Fatal(err)
	}
	warnings := strings.Join(result.Warnings, "\n")
	for _, want := range []string{"setuid", "pipe, null", "python -> /usr/bin/python3"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("%q does not name %s", warnings, want)
		}
	}
	for _, link := range []string{"python", "link"} {
		if to, err := os.Readlink(filepath.Join(target, link)); err != nil || to != "/usr/bin/python3" {
			t.Errorf("%s leads to %q, %v", link, to, err)
		}
	}
	one, errOne := os.Stat(filepath.Join(target, "setuid"))
	two, errTwo := os.Stat(filepath.Join(target, "same"))
	if err := errors.Join(errOne, errTwo); err != nil || !os.SameFile(one, two) || one.Mode() != 0o755 {
		t.Errorf("%v, %v, %v", one, two, err)
	}
	text, err := os.ReadFile(filepath.Join(target, "sparse"))
	if err != nil || !bytes.Equal(text, zeros) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(filepath.Join(target, "sparse"), &st); err != nil || st.Blocks*512 > size/4 {
		t.Errorf("the file takes %d bytes of %d, %v", st.Blocks*512, size, err)
	}
}
