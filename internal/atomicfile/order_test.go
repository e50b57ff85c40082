package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a durable write relies on after a loss of power: the content is on the disk before it gets its name, and the
// name is on the disk before the write returns. The entries of new directories are, too.
func TestOrderOfDurableWrites(t *testing.T) {
	dir := t.TempDir()
	var changes []string
	d := disk{note: func(change, path string) {
		name, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(filepath.Base(name), ".file.") {
			name = filepath.Join(filepath.Dir(name), "temporary")
		}
		changes = append(changes, change+" "+name)
	}}
	if err := d.mkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.write(filepath.Join(dir, "a", "b", "file"), []byte("text"), 0o644, true, os.Rename); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.mkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	replaced := []string{"write a/b/temporary", "sync a/b/temporary", "place a/b/file", "sync a/b"}
	want := append([]string{"mkdir a", "sync .", "mkdir a/b", "sync a"}, append(replaced, replaced...)...)
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := d.mkdirAll(filepath.Join(dir, "a", "b", "file"), fs.ModePerm); err == nil {
		t.Error("a file counts as a directory")
	}
}
