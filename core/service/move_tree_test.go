package service

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
)

// archived is a sandbox whose export is a given archive, and which keeps what it imports.
type archived struct {
	core.FileSystem
	archive, imported []byte
}

func (a *archived) Export(context.Context, string, string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(a.archive)), nil
}

func (a *archived) Import(_ context.Context, _, _ string, archive io.Reader, _ core.ImportOptions) (err error) {
	a.imported, err = io.ReadAll(archive)
	return err
}

// A move carries pipes, and names the devices and sockets that it leaves out, with their other names.
func TestMoveNamesWhatItLeavesOut(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range []tar.Header{
		{Name: "dir/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "dir/pipe", Typeflag: tar.TypeFifo, Mode: 0o640},
		{Name: "dir/again", Typeflag: tar.TypeLink, Linkname: "dir/pipe"},
		{Name: "dir/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3, Mode: 0o666},
		{Name: "dir/same", Typeflag: tar.TypeLink, Linkname: "dir/null"},
		{Name: "dir/disk", Typeflag: tar.TypeBlock, Devmajor: 8, Mode: 0o600},
		{Name: "dir/socket", Typeflag: 'U', Mode: 0o600},
		{Name: "dir/file", Typeflag: tar.TypeReg, Mode: 0o600},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	source, target := &archived{archive: archive.Bytes()}, &archived{}
	var tree movedTree
	if err := tree.copy(t.Context(), source, "a", target, "b", []string{"/srv/dir"}, true); err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(target.imported)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, string(h.Typeflag)+h.Name)
	}
	if want := []string{"5srv/dir/", "6srv/dir/pipe", "1srv/dir/again", "0srv/dir/file"}; !slices.Equal(names, want) {
		t.Errorf("the target got %q, want %q", names, want)
	}
	warning := tree.left.warning()
	for _, want := range []string{"/srv/dir/null", "/srv/dir/same", "/srv/dir/disk", "/srv/dir/socket"} {
		if !strings.Contains(warning, want) {
			t.Errorf("the warning %q does not name %s", warning, want)
		}
	}
	if tree.sums["/srv/dir/pipe"] != "pipe 640" {
		t.Errorf("the pipe is verified as %q", tree.sums["/srv/dir/pipe"])
	}
}
