package transfer

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, there := range []string{"", "old"} {
		if there != "" {
			write(to, there)
		}
		write(from, "new")
		if err := replace(root, "from", "to"); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(to); err != nil || string(text) != "new" {
			t.Errorf("over %q: there is %q, %v", there, text, err)
		}
		if _, err := os.Lstat(from); !os.IsNotExist(err) {
			t.Errorf("over %q: a moved or replaced file is left: %v", there, err)
		}
	}
	// A directory that another process has created is not removed.
	kept := filepath.Join(dir, "directory", "kept")
	if err := os.Mkdir(filepath.Dir(kept), 0o700); err != nil {
		t.Fatal(err)
	}
	write(kept, "kept")
	write(from, "new")
	if err := replace(root, "from", "directory"); err == nil {
		t.Error("a directory was replaced by a file")
	}
	for name, want := range map[string]string{kept: "kept", from: "new"} {
		if text, err := os.ReadFile(name); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
