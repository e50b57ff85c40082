package transfer

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
)

// taker is a sandbox that takes files. Its paths are directories, files, or pipes, which nothing can replace.
type taker struct {
	Files
	modes   map[string]fs.FileMode
	refusal core.Kind // of a write to what is not a file
	looked  int
	wrote   map[string]string
}

func (r *taker) Stat(_ context.Context, _, name string) (core.FileInfo, error) {
	r.looked++
	name = path.Clean(name)
	mode, there := r.modes[name]
	if !there {
		return core.FileInfo{}, core.Errorf(core.KindNotFound, "stat", name, "no such file")
	}
	return core.FileInfo{Path: name, Mode: mode}, nil
}

func (r *taker) WriteFile(_ context.Context, _, name string, content io.Reader, _ core.WriteOptions) error {
	text, err := io.ReadAll(content) // a provider may have read the content before it refuses the name
	if err != nil {
		return err
	}
	if mode, there := r.modes[name]; there && !mode.IsRegular() {
		return core.Errorf(r.refusal, "write", name, "not a regular file")
	}
	r.wrote[name] = string(text)
	return nil
}

func TestPushOfAFile(t *testing.T) {
	for _, refusal := range []core.Kind{core.KindConflict, core.KindInternal} {
		t.Run(refusal.String(), func(t *testing.T) { pushOfAFile(t, refusal) })
	}
}

func pushOfAFile(t *testing.T, refusal core.Kind) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(source, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	modes := map[string]fs.FileMode{
		"/dir": fs.ModeDir, "/dir/f": fs.ModeDir, "/old/f": 0, "/old": fs.ModeDir, "/pipe/f": fs.ModeNamedPipe,
	}
	for to, want := range map[string]struct {
		at     string // "" if it is refused
		looked int
	}{
		"/new/f":  {at: "/new/f"},
		"/old/f":  {at: "/old/f"},
		"/old":    {at: "/old/f", looked: 2},
		"/old/":   {at: "/old/f", looked: 2},
		"/dir/f":  {at: "/dir/f/f", looked: 2}, // a directory that has the file's name
		"/dir":    {looked: 2},
		"/pipe/f": {looked: 1},
		"/other":  {at: "/other", looked: 1},
		"/new/f/": {looked: 2},
	} {
		box := &taker{modes: modes, refusal: refusal, wrote: map[string]string{}}
		result, err := Copy(t.Context(), box, Request{From: Endpoint{"", source}, To: Endpoint{"box", to}})
		wrote := map[string]string{}
		if want.at != "" {
			wrote[want.at] = "text"
		}
		if diff := cmp.Diff(wrote, box.wrote); diff != "" {
			t.Errorf("%s: want -, have +:\n%s", to, diff)
		}
		if box.looked != want.looked {
			t.Errorf("%s: %d looks at the sandbox, want %d", to, box.looked, want.looked)
		}
		if want.at != "" && (err != nil || result.Bytes != 4 || result.Files != 1) {
			t.Errorf("%s: %+v, %v", to, result, err)
		}
		if want.at == "" && err == nil {
			t.Errorf("%s: it was copied", to)
		}
	}
}
