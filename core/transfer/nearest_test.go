package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	dir := t.TempDir()
	names := []string{"f", "a/f", "a/g", "a/b/f", "a/f", "f", "c/f"}
	for _, name := range names {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(name), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	at := nearest{root: root}
	for _, name := range names {
		in, base, err := at.in(name)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := in.ReadFile(base); err != nil || string(text) != name {
			t.Errorf("%s is %q, %v", name, text, err)
		}
	}
	for name, want := range map[string]error{"none/f": fs.ErrNotExist, "out/f": nil} {
		_, _, err := at.in(name)
		if err == nil || !strings.Contains(err.Error(), name) || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := at.close(); err != nil {
		t.Error(err)
	}
	if err := at.close(); err != nil {
		t.Error("closed twice:", err)
	}
	if err := named(&fs.PathError{Op: "open", Path: "f", Err: fs.ErrPermission}, "a/f"); err.Error() !=
		"open a/f: permission denied" {
		t.Error(err)
	}
}
