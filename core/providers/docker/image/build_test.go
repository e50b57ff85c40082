package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed-0724f904/sb/core"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBuildContext(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"Dockerfile": "FROM x", ".dockerignore": "# all but\n*\n!keep\nkeep/not\n", "keep/a": "a", "keep/not/b": "b",
		"other/c": "c", "d": "d",
	})
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "keep", "link")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"own": "FROM x", "own.dockerignore": "*\n!d\n"})
	for dockerfile, want := range map[string][]string{
		"Dockerfile": {"Dockerfile", "keep", "keep/a", "keep/link/etc/passwd"}, "own": {"d", "own"},
	} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		if err := errors.Join(addContext(t.Context(), w, dir, dockerfile), w.Close()); err != nil {
			t.Fatal(err)
		}
		var names []string
		for r := tar.NewReader(&archive); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Uid != 0 || h.Uname != "" {
				t.Errorf("%s belongs to %d %s", h.Name, h.Uid, h.Uname)
			}
			names = append(names, strings.TrimSuffix(h.Name, "/")+h.Linkname)
		}
		if !slices.Equal(names, want) {
			t.Errorf("the context is %q, want %q", names, want)
		}
	}
}

func TestBaseNames(t *testing.T) {
	const text = `# escape=\
FROM --platform=linux/amd64 far.example/private:1 AS Base
COPY <<END /script
FROM no/image
END
RUN echo a; \
    FROM=b
from \
    other:2
FROM base AS next
FROM $VARIABLE
FROM scratch
COPY --from=next / /
`
	if got, want := baseNames([]byte(text)), []string{"far.example/private:1", "other:2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := baseNames([]byte("FROM a\nRUN <<END\n")); got != nil {
		t.Errorf("of a damaged Dockerfile: %q", got)
	}
}

// BuildKit's messages are protocol buffers. Damaged ones only lose progress.
func FuzzTrace(f *testing.F) {
	vertex := protowire.AppendTag(nil, vertexName, protowire.BytesType)
	vertex = protowire.AppendString(vertex, "[1/2] RUN true")
	vertex = protowire.AppendTag(vertex, vertexStarted, protowire.BytesType)
	vertex = protowire.AppendBytes(vertex, nil)
	status := protowire.AppendTag(nil, statusVertexes, protowire.BytesType)
	f.Add(protowire.AppendBytes(status, vertex))
	f.Fuzz(func(t *testing.T, text []byte) {
		var steps []string
		newBuildSteps(func(p core.Progress) { steps = append(steps, p.Step) }).trace(text)
		if bytes.Contains(text, []byte("[1/2] RUN true")) && bytes.Equal(text, protowire.AppendBytes(status, vertex)) &&
			!slices.Equal(steps, []string{"building: [1/2] RUN true"}) {
			t.Errorf("the steps are %q", steps)
		}
	})
}
