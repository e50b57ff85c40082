//go:build linux

package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded returns a Writer that records the changes of the disk, and the names below dir that it changed.
func recorded(t *testing.T, dir string, changes *[]string) Writer {
	t.Helper()
	return Writer{note: func(change, path string) {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		*changes = append(*changes, change+" "+name)
	}}
}

// After a loss of power, a durable file has its old or its new content: the content is on the disk before it gets its
// name, and the name is before the copy of the old content is replaced.
func TestOrderOfASealedFile(t *testing.T) {
	dir := t.TempDir()
	var changes []string
	w := recorded(t, dir, &changes)
	if err := w.WriteJSON(filepath.Join(dir, "f"), 1, true); err != nil {
		t.Fatal(err)
	}
	want := []string{"write .f.new", "sync .f.new", "rename f", "sync .", "write .f.copy.new", "rename f.copy"}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// sealing are the changes that seal a directory with one file.
func sealing(dir string) []string {
	sums := func(name string) string { return filepath.Join(dir, name) }
	return []string{
		"sync " + dir, "sync " + sums("pages.img"),
		"write " + sums(".sums.json.new"), "sync " + sums(".sums.json.new"), "rename " + sums("sums.json"), "sync " + dir,
		"write " + sums(".sums.json.copy.new"), "rename " + sums("sums.json.copy"),
	}
}

// A generation is on the disk under its name before an older one is removed.
func TestOrderOfASave(t *testing.T) {
	dir := t.TempDir()
	saves := SavesIn(dir)
	var changes []string
	saves.writer = recorded(t, saves.dir, &changes)
	files := func(draft string) error {
		if err := os.Mkdir(draft, 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(draft, "pages.img"), []byte("text"), 0o600)
	}
	for range 3 {
		changes = nil
		if _, err := saves.Save(files); err != nil {
			t.Fatal(err)
		}
	}
	want := append([]string{"write 3.new"}, sealing("3.new")...)
	want = append(want, "rename 3", "sync .", "remove 1")
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A checkpoint or a snapshot is on the disk before it gets its name, and its name is before the old one is removed.
func TestOrderOfAPublication(t *testing.T) {
	s := New(t.TempDir())
	shelf := s.Checkpoints()
	for range 2 {
		draft, err := shelf.Draft()
		if err != nil {
			t.Fatal(err)
		}
		var changes []string
		draft.writer = recorded(t, shelf.dir, &changes)
		temporary := filepath.Base(draft.Dir)
		if err := draft.Publish("one", "text", true); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"write " + temporary + "/.checkpoint.json.new", "sync " + temporary + "/.checkpoint.json.new",
			"rename " + temporary + "/checkpoint.json", "sync " + temporary,
			"write " + temporary + "/.checkpoint.json.copy.new", "rename " + temporary + "/checkpoint.json.copy",
			"rename one", "sync .",
		}
		if diff := cmp.Diff(want, changes); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		draft.Close()
	}
}

// A sandbox that must survive a loss of power has its directories and its name on the disk. Without one of them, Settle
// fails.
func TestSettleNeedsTheDirectories(t *testing.T) {
	s := New(t.TempDir())
	if err := s.Settle("loc-missing"); err == nil {
		t.Error("a sandbox without a directory is settled")
	}
	lock, err := s.Create("loc-there")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := s.Settle("loc-there"); err != nil {
		t.Error(err)
	}
}
