package origin_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core/origin"
)

func TestSurvey(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("kept", "same")
	write("sub/changed", "before")
	if err := os.Symlink("kept", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	before, err := origin.Survey(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(before) != 5 || before["link"].Link != "kept" || before["sub/changed"].Size != 6 {
		t.Errorf("%+v", before)
	}
	write("sub/changed", "after!") // the same size
	write("sub/new", "x")
	if err := os.Remove(filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	after, err := origin.Survey(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string]bool{}
	for name, file := range after {
		if was, known := before[name]; !known || !was.Same(file) {
			changed[name] = true
		}
	}
	if diff := cmp.Diff(map[string]bool{"sub/changed": true, "sub/new": true, "link": true}, changed); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
}

func TestStore(t *testing.T) {
	store := origin.Store{Dir: filepath.Join(t.TempDir(), "origins")}
	if got, err := store.Read("local", "lo-1"); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	for _, target := range []string{"/srv/b", "/srv/a", "/srv/b"} {
		if err := store.Write("local", "lo-1", origin.Origin{Source: "/src", Target: target}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.Read("local", "lo-1")
	if err != nil || len(got) != 2 || got[0].Target != "/srv/a" || got[1].Target != "/srv/b" {
		t.Errorf("%+v, %v", got, err)
	}
	files, err := filepath.Glob(filepath.Join(store.Dir, "*", "*"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Read("local", "lo-1"); err == nil {
		t.Error("a damaged record is believed")
	}
	if err := store.Remove("local", "lo-1"); err != nil {
		t.Fatal(err)
	}
	if left, err := store.Sandboxes(); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestSelectedFilesAddToTheirOwnRecord(t *testing.T) {
	store := origin.Store{Dir: filepath.Join(t.TempDir(), "origins")}
	write := func(o origin.Origin) {
		t.Helper()
		if err := store.Write("local", "lo-1", o); err != nil {
			t.Fatal(err)
		}
	}
	write(origin.Origin{Source: "/other", Target: "/srv", Files: map[string]origin.File{"big": {}}})
	damaged, err := filepath.Glob(filepath.Join(store.Dir, "*", "*"))
	if err != nil || len(damaged) != 1 {
		t.Fatal(damaged, err)
	}
	whole, err := os.ReadFile(damaged[0])
	if err != nil {
		t.Fatal(err)
	}
	// A push of one file neither reads the record of another directory nor fails for it.
	if err := os.WriteFile(damaged[0], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "a"} {
		write(origin.Origin{
			Source: "/src", Target: "/srv", Selected: true, Files: map[string]origin.File{name: {Size: 1}},
		})
	}
	write(origin.Origin{Source: "/third", Target: "/srv", Selected: true, Files: map[string]origin.File{"c": {}}})
	if err := os.WriteFile(damaged[0], whole, 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := store.Read("local", "lo-1")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]int{}
	for _, o := range list {
		files[o.Source] = len(o.Files)
	}
	if diff := cmp.Diff(map[string]int{"/other": 1, "/src": 2, "/third": 1}, files); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
}
