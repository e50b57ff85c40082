package providertest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

func (s *suite) files(t *testing.T) {
	p := s.provider(t)
	fsys, ok := optional[core.FileSystem](t, p)
	if !ok {
		return
	}
	id := launch(t, p, nil).ID
	ctx := t.Context()
	const odd = "/tmp/dir/na\xffme with blank\n"
	if err := fsys.Mkdir(ctx, id, "/tmp/dir", false); err != nil {
		t.Fatal(err)
	}
	wantKind(t, fsys.Mkdir(ctx, id, "/tmp/dir", false), core.KindConflict)
	wantKind(t, fsys.Mkdir(ctx, id, "/tmp/a/b/c", false), core.KindNotFound)
	if err := errors.Join(fsys.Mkdir(ctx, id, "/tmp/a/b/c", true), fsys.Mkdir(ctx, id, "/tmp/a/b/c", true)); err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("0123456789\x00\xff"), 200000)
	if err := fsys.WriteFile(ctx, id, odd, bytes.NewReader(content), core.WriteOptions{Mode: 0o640}); err != nil {
		t.Fatal(err)
	}
	r, err := fsys.ReadFile(ctx, id, odd)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, content) {
		t.Errorf("read %d bytes back, %v", len(got), err)
	}
	broken := io.MultiReader(strings.NewReader("new"), failingReader{})
	if err := fsys.WriteFile(ctx, id, odd, broken, core.WriteOptions{}); err == nil {
		t.Error("a broken write succeeded")
	}
	info, err := fsys.Stat(ctx, id, odd)
	if err != nil || info.Size != int64(len(content)) || info.Mode.Perm() != 0o640 || info.Path != odd {
		t.Errorf("after a broken write: %+v, %v", info, err)
	}
	if r := sh(t, p, id, "ln -s ../dir /tmp/dir/link; chmod 755 /tmp/a"); r.exit.Code != 0 {
		t.Fatal(r)
	}
	infos, err := fsys.ReadDir(ctx, id, "/tmp/dir")
	if err != nil || len(infos) != 2 || infos[0].Link != "../dir" || infos[1].Path != odd {
		t.Errorf("the directory is %+v, %v", infos, err)
	}
	_, err = fsys.ReadFile(ctx, id, "/tmp/nothing")
	wantKind(t, err, core.KindNotFound)
	_, err = fsys.ReadFile(ctx, id, "/tmp/dir")
	wantKind(t, err, core.KindConflict)
	_, err = fsys.Stat(ctx, id, "/tmp/nothing")
	wantKind(t, err, core.KindNotFound)
	wantKind(t, fsys.WriteFile(ctx, id, "/tmp/dir", strings.NewReader("x"), core.WriteOptions{}), core.KindConflict)
	wantKind(
		t, fsys.WriteFile(ctx, id, "/tmp/no/such/dir", strings.NewReader("x"), core.WriteOptions{}), core.KindNotFound,
	)
	s.archives(t, p, fsys, id)
	canceledWrites(t, fsys, id)
	wantKind(t, fsys.Remove(ctx, id, "/tmp/dir", false), core.KindConflict)
	if err := fsys.Remove(ctx, id, "/tmp/dir", true); err != nil {
		t.Error(err)
	}
	wantKind(t, fsys.Remove(ctx, id, "/tmp/dir", false), core.KindNotFound)
}

func (s *suite) archives(t *testing.T, p core.Provider, fsys core.FileSystem, id string) {
	t.Helper()
	ctx := t.Context()
	archive, err := fsys.Export(ctx, id, "/tmp/dir")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(archive)
	if err = errors.Join(err, archive.Close()); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Mkdir(ctx, id, "/tmp/copy", false); err != nil {
		t.Fatal(err)
	}
	if err := fsys.Import(ctx, id, "/tmp/copy", bytes.NewReader(data), core.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if r := sh(
		t, p, id,
		"cd /tmp && diff -r dir/na* copy/dir/na* && readlink copy/dir/link && ls -l copy/dir/na* | head -n 1 | cut -c1-10",
	); r.out != "../dir\n-rw-r-----\n" {
		t.Errorf("the copy differs: %+v", r)
	}
	if err := fsys.Import(ctx, id, "/tmp/copy", bytes.NewReader(data[:len(data)/2]), core.ImportOptions{}); err == nil {
		t.Error("half an archive was imported")
	}
	for name, headers := range map[string][]tar.Header{
		"parent":   {{Name: "../escaped", Typeflag: tar.TypeReg}},
		"absolute": {{Name: "/tmp/escaped", Typeflag: tar.TypeReg}},
		"through link": {
			{Name: "up", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "up/escaped", Typeflag: tar.TypeReg},
		},
		"hard link": {{Name: "hard", Typeflag: tar.TypeLink, Linkname: "../escaped"}},
	} {
		var hostile bytes.Buffer
		w := tar.NewWriter(&hostile)
		for _, header := range headers {
			header.Mode = int64(fs.ModePerm)
			if err := w.WriteHeader(&header); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := fsys.Import(ctx, id, "/tmp/copy", &hostile, core.ImportOptions{}); err == nil {
			t.Errorf("an archive with a hostile %s was imported", name)
		}
	}
	if r := sh(t, p, id, "ls /tmp/escaped 2>/dev/null"); r.out != "" {
		t.Errorf("something escaped: %+v", r)
	}
	var links bytes.Buffer
	w := tar.NewWriter(&links)
	for _, target := range []string{"/usr/bin/env", "../../up", "dir/../../up"} {
		header := tar.Header{Name: "kept" + strings.ReplaceAll(target, "/", "-"), Typeflag: tar.TypeSymlink, Linkname: target}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), fsys.Import(ctx, id, "/tmp/copy", &links, core.ImportOptions{})); err != nil {
		t.Errorf("links that lead outside: %v", err)
	}
	if r := sh(
		t, p, id, "for l in /tmp/copy/kept*; do readlink $l; done",
	); r.out != "/usr/bin/env\n../../up\ndir/../../up\n" {
		t.Errorf("links that lead outside are %+v", r)
	}
	s.machine(t, p, fsys, id)
}

// machine imports into the root, as a move does. Links may lead anywhere. Existing directories get the archive's modes
// only on request.
func (s *suite) machine(t *testing.T, p core.Provider, fsys core.FileSystem, id string) {
	t.Helper()
	for _, modes := range []bool{false, true} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for _, header := range []tar.Header{
			{Name: "tmp/copy/", Typeflag: tar.TypeDir, Mode: 0o2750},
			{Name: "tmp/copy/absolute", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
			{Name: "tmp/copy/up", Typeflag: tar.TypeSymlink, Linkname: "../dir/../copy/link"},
		} {
			if err := w.WriteHeader(&header); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := fsys.Import(t.Context(), id, "/", &archive, core.ImportOptions{DirectoryModes: modes}); err != nil {
			t.Fatal(err)
		}
		info, err := fsys.Stat(t.Context(), id, "/tmp/copy")
		if err != nil || (info.Mode.Perm() == 0o750) != modes {
			t.Errorf("modes of directories %v: it has %v, %v", modes, info.Mode, err)
		}
		if r := sh(
			t, p, id, "readlink /tmp/copy/absolute; readlink /tmp/copy/up",
		); r.out != "/etc/passwd\n../dir/../copy/link\n" {
			t.Errorf("links: %+v", r)
		}
	}
}

// canceledWrites cancels writes whose content blocks. When they return, their unfinished files are removed.
func canceledWrites(t *testing.T, fsys core.FileSystem, id string) {
	t.Helper()
	const dir = "/tmp/canceled"
	if err := fsys.Mkdir(t.Context(), id, dir, false); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "file", Typeflag: tar.TypeReg, Mode: 0o600, Size: 8 << 20}); err != nil {
		t.Fatal(err)
	}
	some := make([]byte, 3<<20)
	hold := make(chan struct{})
	defer close(hold)
	for range 3 {
		for what, write := range map[string]func(ctx context.Context, cancel func()) error{
			"write": func(ctx context.Context, cancel func()) error {
				content := io.MultiReader(bytes.NewReader(some), &blockingReader{cancel, hold})
				return fsys.WriteFile(ctx, id, dir+"/file", content, core.WriteOptions{})
			},
			"import": func(ctx context.Context, cancel func()) error {
				content := io.MultiReader(
					bytes.NewReader(archive.Bytes()), bytes.NewReader(some), &blockingReader{cancel, hold},
				)
				return fsys.Import(ctx, id, dir, content, core.ImportOptions{})
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			if err := write(ctx, cancel); !errors.Is(err, core.KindCanceled) {
				t.Errorf("the error of a canceled %s is %v", what, err)
			}
			if infos, err := fsys.ReadDir(t.Context(), id, dir); err != nil || len(infos) != 0 {
				t.Errorf("a canceled %s left %+v, %v", what, infos, err)
			}
		}
	}
	if err := fsys.Remove(t.Context(), id, dir, true); err != nil {
		t.Error(err)
	}
}

// blockingReader calls cancel on the first read, and blocks until hold is closed.
type blockingReader struct {
	cancel func()
	hold   <-chan struct{}
}

func (r *blockingReader) Read([]byte) (int, error) {
	r.cancel()
	<-r.hold
	return 0, io.ErrUnexpectedEOF
}

// failingReader fails on the first read.
type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("the source broke") }
