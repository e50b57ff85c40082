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
