package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// A link is copied wherever it leads, and no file is created through one.
func TestPullRefusesWritesThroughLinks(t *testing.T) {
	deep := []tar.Header{
		{Name: "dir/", Typeflag: tar.TypeDir},
		{Name: "dir/a/", Typeflag: tar.TypeDir},
		{Name: "dir/a/b/", Typeflag: tar.TypeDir},
	}
	top := tar.Header{Name: "dir/a/b/top", Typeflag: tar.TypeSymlink, Linkname: "../.."}
	for name, headers := range map[string][]tar.Header{
		"file through link": {top, {Name: "dir/a/b/top/f", Typeflag: tar.TypeReg}},
		"through a hard link": {
			top,
			{Name: "dir/a/b/same", Typeflag: tar.TypeLink, Linkname: "dir/a/b/top"},
			{Name: "dir/a/b/same/f", Typeflag: tar.TypeReg},
		},
		"made through a link": {top, {Name: "dir/a/b/top/l", Typeflag: tar.TypeSymlink, Linkname: "../secret"}},
		"directory through link": {
			top,
			{Name: "dir/a/b/top/new/", Typeflag: tar.TypeDir},
			{Name: "dir/a/b/top/new/l", Typeflag: tar.TypeSymlink, Linkname: "../../secret"},
		},
		"hard link over the link": {
			top,
			{Name: "dir/a/b/up", Typeflag: tar.TypeSymlink, Linkname: "../secret"},
			{Name: "dir/l", Typeflag: tar.TypeLink, Linkname: "dir/a/b/top/a/b/up"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			if err := os.WriteFile(filepath.Join(outer, "secret"), []byte("s"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := pull(
				t, sender{archive: pack(t, append(append([]tar.Header{}, deep...), headers...)...)}, filepath.Join(outer, "b"),
			); err == nil {
				t.Error("it was pulled")
			}
			onlySecret(t, outer)
		})
	}
}

func TestPullOfTheRootKeepsItsDirectories(t *testing.T) {
	target := filepath.Join(t.TempDir(), "b")
	from := sender{archive: pack(t, tar.Header{Name: "./", Typeflag: tar.TypeDir},
		tar.Header{Name: "./etc/", Typeflag: tar.TypeDir}, tar.Header{Name: "./etc/hosts", Typeflag: tar.TypeReg})}
	if _, err := Copy(t.Context(), from, Request{From: Endpoint{"box", "/"}, To: Endpoint{"", target}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(target, "etc", "hosts")); err != nil {
		t.Error(err)
	}
}

// The directory above a target may belong to another user, or be on another disk.
func TestPullIntoDirectoryKeepsParent(t *testing.T) {
	parent := t.TempDir()
	target := filepath.Join(parent, "mine")
	past := time.Unix(1_000_000_000, 0)
	if err := errors.Join(os.Mkdir(target, 0o700), os.Chtimes(parent, past, past)); err != nil {
		t.Fatal(err)
	}
	from := sender{
		archive: pack(t, tar.Header{Name: "dir/", Typeflag: tar.TypeDir}, tar.Header{Name: "dir/f", Typeflag: tar.TypeReg}),
	}
	if _, err := Copy(t.Context(), from, Request{From: Endpoint{"box", "/dir/"}, To: Endpoint{"", target}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(target, "f")); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(parent)
	if err != nil || !info.ModTime().Equal(past) {
		t.Errorf("the directory above was changed: %v, %v", info.ModTime(), err)
	}
}

// An ordinary user can neither fill nor move a directory without write permission.
func TestPullKeepsReadOnlyDirectories(t *testing.T) {
	headers := []tar.Header{
		{Name: "dir/", Typeflag: tar.TypeDir},
		{Name: "dir/old/", Typeflag: tar.TypeDir},
		{Name: "dir/old/f", Typeflag: tar.TypeReg},
		{Name: "dir/new/", Typeflag: tar.TypeDir},
		{Name: "dir/new/f", Typeflag: tar.TypeReg},
	}
	from := sender{archive: packReadOnly(t, headers)}
	for _, existing := range []bool{false, true} {
		parent := t.TempDir()
		target := filepath.Join(parent, "dir")
		if existing {
			if err := os.MkdirAll(filepath.Join(target, "old"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { // an ordinary user cannot empty a read-only directory
			for _, dir := range []string{".", "old", "new"} {
				_ = os.Chmod(filepath.Join(target, dir), 0o700)
			}
		})
		if _, err := Copy(t.Context(), from, Request{From: Endpoint{"box", "/dir/"}, To: Endpoint{"", target}}); err != nil {
			t.Fatalf("existing %v: %v", existing, err)
		}
		want := map[string]fs.FileMode{"new": 0o555, ".": 0o555, "old": 0o555}
		if existing { // existing directories keep their mode
			want["."], want["old"] = 0o700, 0o700
		}
		for name, mode := range want {
			info, err := os.Stat(filepath.Join(target, name))
			if err != nil || info.Mode().Perm() != mode {
				t.Errorf("existing %v: %s: want %v, got %v, %v", existing, name, mode, info.Mode(), err)
			}
		}
	}
}

func packReadOnly(t *testing.T, headers []tar.Header) []byte {
	t.Helper()
	var b strings.Builder
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Mode = 0o555
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

func TestRefusedMergeReplacesNothing(t *testing.T) {
	parent := t.TempDir()
	target := filepath.Join(parent, "dir")
	if err := errors.Join(
		os.MkdirAll(filepath.Join(target, "z"), 0o700), os.WriteFile(filepath.Join(target, "a"), []byte("old"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	from := sender{archive: pack(t, tar.Header{Name: "dir/", Typeflag: tar.TypeDir},
		tar.Header{Name: "dir/a", Typeflag: tar.TypeReg}, tar.Header{Name: "dir/z", Typeflag: tar.TypeReg})}
	if err := pull(t, from, parent); !errors.Is(err, core.KindConflict) {
		t.Errorf("want a conflict, got %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(target, "a")); err != nil || string(data) != "old" {
		t.Errorf("a was replaced: %q, %v", data, err)
	}
}

// receiver is a sandbox without files. Its imports fail, and it records removals.
type receiver struct {
	Files
	cancel  context.CancelFunc
	removed *bool
}

func (r receiver) Stat(_ context.Context, _, name string) (core.FileInfo, error) {
	return core.FileInfo{}, core.Errorf(core.KindNotFound, "stat", name, "no such file")
}
func (r receiver) Mkdir(context.Context, string, string, bool) error { return nil }
func (r receiver) Import(ctx context.Context, _, _ string, _ io.Reader, _ core.ImportOptions) error {
	r.cancel()
	return ctx.Err()
}

func (r receiver) Remove(ctx context.Context, _, _ string, _ bool) error {
	*r.removed = ctx.Err() == nil
	return ctx.Err()
}

func TestCanceledPushRemovesItsTarget(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var removed bool
	_, err := Copy(
		ctx, receiver{cancel: cancel, removed: &removed},
		Request{From: Endpoint{"", t.TempDir()}, To: Endpoint{"box", "/new"}},
	)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("want it cancelled, got %v", err)
	}
	if !removed {
		t.Error("the half-made target was left")
	}
}

// tree is a sandbox with the given files.
type tree struct {
	Files
	files map[string]fs.FileMode
}

func (s tree) Stat(_ context.Context, _, name string) (core.FileInfo, error) {
	if mode, ok := s.files[name]; ok {
		return core.FileInfo{Path: name, Mode: mode}, nil
	}
	return core.FileInfo{}, core.Errorf(core.KindNotFound, "stat", name, "no such file")
}

func (s tree) ReadDir(_ context.Context, _, dir string) ([]core.FileInfo, error) {
	var infos []core.FileInfo
	for name, mode := range s.files {
		if filepath.Dir(name) == dir && name != dir {
			infos = append(infos, core.FileInfo{Path: name, Mode: mode})
		}
	}
	return infos, nil
}

func TestPatternsInASandbox(t *testing.T) {
	box := tree{files: map[string]fs.FileMode{
		"/": fs.ModeDir, "/a[1].txt": 0, "/x": fs.ModeDir, "/x/log": 0, "/y": fs.ModeDir,
	}}
	for pattern, want := range map[string]string{"/a[1].txt": "/a[1].txt", "/*/log": "/x/log"} {
		got, err := Expand(t.Context(), box, Endpoint{"box", pattern})
		if err != nil || len(got) != 1 || got[0].Path != want {
			t.Errorf("%s: want %s, got %v, %v", pattern, want, got, err)
		}
	}
}

// Otherwise the copy would copy itself until the disk is full.
func TestCopyDirectoryIntoItself(t *testing.T) {
	box := tree{files: map[string]fs.FileMode{"/": fs.ModeDir, "/d": fs.ModeDir, "/d/e": fs.ModeDir}}
	for _, to := range []string{"/d/new", "/d/e"} {
		_, err := Copy(t.Context(), box, Request{From: Endpoint{"box", "/d"}, To: Endpoint{"box", to}})
		if !errors.Is(err, core.KindUsage) {
			t.Errorf("%s: want a usage error, got %v", to, err)
		}
	}
}

// A few bytes of an archive can describe more zeros than the disk can hold.
func TestPullRefusesSparseFiles(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "dir"), 0o700),
		os.WriteFile(filepath.Join(dir, "dir", "f"), nil, 0o600),
		os.Truncate(filepath.Join(dir, "dir", "f"), 1<<32)); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"gnu", "posix"} {
		archive, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "--sparse", "--format="+format, "-cf", "-", "dir").
			Output()
		if err != nil || len(archive) > 1<<16 {
			t.Fatalf("%d bytes, %v", len(archive), err)
		}
		target := filepath.Join(t.TempDir(), "b")
		if err := pull(t, sender{archive: archive}, target); !errors.Is(err, core.KindUsage) {
			t.Errorf("%s: %v", format, err)
		}
		if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: something was left: %v", format, err)
		}
	}
}
