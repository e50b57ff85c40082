package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// sender is a sandbox with one directory, /dir, with links and with any archive.
type sender struct {
	Files
	archive []byte
	broken  error
	links   map[string]string
	got     *bytes.Buffer // the imported archive
	file    bool          // it is a file instead
}

func (s sender) Stat(_ context.Context, _, name string) (core.FileInfo, error) {
	if target, ok := s.links[name]; ok {
		return core.FileInfo{Path: name, Mode: fs.ModeSymlink | 0o777, Link: target}, nil
	}
	if s.file {
		return core.FileInfo{Path: name, Mode: 0o600, Size: 4}, nil
	}
	return core.FileInfo{Path: name, Mode: fs.ModeDir | 0o755, Size: 4}, nil
}

func (s sender) ReadFile(context.Context, string, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("text")), nil
}

func (s sender) Import(_ context.Context, _, _ string, archive io.Reader, _ core.ImportOptions) error {
	_, err := s.got.ReadFrom(archive)
	return err
}

func (s sender) Export(_ context.Context, _, name string) (io.ReadCloser, error) {
	if _, ok := s.links[name]; ok {
		return nil, errors.New("a link was asked for")
	}
	if s.broken != nil {
		return io.NopCloser(io.MultiReader(bytes.NewReader(s.archive), failing{s.broken})), nil
	}
	return io.NopCloser(bytes.NewReader(s.archive)), nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func pack(tb testing.TB, headers ...tar.Header) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Mode = 0o755
		if h.Typeflag == tar.TypeReg {
			h.Size = 4
		}
		if err := w.WriteHeader(&h); err != nil {
			tb.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte("text")); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func pull(t *testing.T, from sender, to string) error {
	t.Helper()
	_, err := Copy(t.Context(), from, Request{From: Endpoint{"box", "/dir"}, To: Endpoint{"", to}})
	return err
}

func TestPullRefusesEscapes(t *testing.T) {
	dir := tar.Header{Name: "dir/", Typeflag: tar.TypeDir}
	for name, headers := range map[string][]tar.Header{
		"parent":       {dir, {Name: "../escaped", Typeflag: tar.TypeReg}},
		"parent below": {dir, {Name: "dir/../../escaped", Typeflag: tar.TypeReg}},
		"absolute":     {dir, {Name: "/escaped", Typeflag: tar.TypeReg}},
		"through a link": {
			dir, {Name: "dir/l", Typeflag: tar.TypeSymlink, Linkname: "../.."}, {Name: "dir/l/escaped", Typeflag: tar.TypeReg},
		},
		"directory twice":   {dir, {Name: "dir/d/", Typeflag: tar.TypeDir}, {Name: "dir/d/", Typeflag: tar.TypeDir}},
		"hard link outside": {dir, {Name: "dir/l", Typeflag: tar.TypeLink, Linkname: "../../secret"}},
		"same file twice":   {dir, {Name: "dir/f", Typeflag: tar.TypeReg}, {Name: "dir/f", Typeflag: tar.TypeReg}},
		"file through link": {
			dir, {Name: "dir/l", Typeflag: tar.TypeSymlink, Linkname: "sub"}, {Name: "dir/l", Typeflag: tar.TypeReg},
		},
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			if err := os.WriteFile(filepath.Join(outer, "secret"), []byte("s"), 0o600); err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(outer, "a", "b")
			if err := os.Mkdir(filepath.Dir(target), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := pull(t, sender{archive: pack(t, headers...)}, target); err == nil {
				t.Error("it was pulled")
			}
			onlySecret(t, outer)
		})
	}
}

// onlySecret checks that a refused pull left nothing.
func onlySecret(t *testing.T, outer string) {
	t.Helper()
	err := filepath.WalkDir(outer, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "secret" || d.Name() == "b" {
			t.Errorf("%s was left", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBrokenPullLeavesNothing(t *testing.T) {
	whole := pack(t, tar.Header{Name: "dir/", Typeflag: tar.TypeDir}, tar.Header{Name: "dir/f", Typeflag: tar.TypeReg})
	for name, from := range map[string]sender{
		"cut short":        {archive: whole[:1000]},
		"fails at the end": {archive: whole, broken: errors.New("the sandbox is gone")},
	} {
		parent := t.TempDir()
		if err := pull(t, from, filepath.Join(parent, "b")); err == nil {
			t.Errorf("%s: it was pulled", name)
		}
		if entries, err := os.ReadDir(parent); err != nil || len(entries) != 0 {
			t.Errorf("%s: left behind are %v, %v", name, entries, err)
		}
	}
}

func TestPullMergesIntoADirectory(t *testing.T) {
	parent := t.TempDir()
	old := filepath.Join(parent, "dir", "sub")
	if err := errors.Join(os.MkdirAll(old, 0o700), os.WriteFile(filepath.Join(old, "mine"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	from := sender{archive: pack(t, tar.Header{Name: "dir/", Typeflag: tar.TypeDir},
		tar.Header{Name: "dir/sub/", Typeflag: tar.TypeDir},
		tar.Header{Name: "dir/sub/f", Typeflag: tar.TypeReg}, tar.Header{Name: "dir/new/", Typeflag: tar.TypeDir},
		tar.Header{Name: "dir/new/na\xffme", Typeflag: tar.TypeReg, Format: tar.FormatGNU})}
	if err := pull(t, from, parent); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dir/sub/mine", "dir/sub/f", "dir/new/na\xffme"} {
		if _, err := os.Stat(filepath.Join(parent, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestPullReplacesFilesOfSeveralDirectories(t *testing.T) {
	parent := t.TempDir()
	names := []string{"dir/a/f", "dir/a/g", "dir/b/f", "dir/f"}
	headers := []tar.Header{
		{Name: "dir/", Typeflag: tar.TypeDir},
		{Name: "dir/a/", Typeflag: tar.TypeDir},
		{Name: "dir/b/", Typeflag: tar.TypeDir},
	}
	for _, name := range names {
		headers = append(headers, tar.Header{Name: name, Typeflag: tar.TypeReg})
		old := filepath.Join(parent, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(old), 0o700), os.WriteFile(old, []byte("old"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	headers = append(headers, tar.Header{Name: "dir/a/new", Typeflag: tar.TypeReg})
	if err := pull(t, sender{archive: pack(t, headers...)}, parent); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "dir/a/new") {
		if text, err := os.ReadFile(filepath.Join(parent, name)); err != nil || string(text) != "text" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(parent, "dir")); err != nil || len(entries) != 3 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

func TestPullOfSmallFilesAllocatesLittle(t *testing.T) {
	headers := []tar.Header{{Name: "dir/", Typeflag: tar.TypeDir}}
	for i := range 200 {
		headers = append(headers, tar.Header{Name: fmt.Sprintf("dir/%d", i), Typeflag: tar.TypeReg})
	}
	from, to := sender{archive: pack(t, headers...)}, t.TempDir()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := pull(t, from, to); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 200; each > copyBuffer/4 {
		t.Errorf("a file of four bytes took %d bytes of memory", each)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(pack(f, tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "d/f", Typeflag: tar.TypeReg}))
	f.Add(pack(f, tar.Header{Name: "../x", Typeflag: tar.TypeReg}))
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		outer := t.TempDir()
		_ = pull(t, sender{archive: archive}, filepath.Join(outer, "b"))
		entries, err := os.ReadDir(outer)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != "b" {
				t.Errorf("%s was left beside the target", e.Name())
			}
		}
	})
}
