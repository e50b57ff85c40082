package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0724f904/sb/internal/atomicfile"
)

func TestReplace(t *testing.T) {
	for name, write := range map[string]func(string, []byte, fs.FileMode) error{
		"Write": atomicfile.Write, "WriteDurable": atomicfile.WriteDurable,
	} {
		path := filepath.Join(t.TempDir(), "file")
		for _, want := range []struct {
			text string
			mode fs.FileMode
		}{{"first", 0o600}, {"second", 0o644}, {"", 0o600}} {
			if err := write(path, []byte(want.text), want.mode); err != nil {
				t.Fatal(err)
			}
			wantFile(t, path, want.text, want.mode)
		}
		// A directory in its place: the write fails, and leaves nothing.
		if err := write(filepath.Dir(path), []byte("x"), 0o600); err == nil {
			t.Errorf("%s replaced a directory", name)
		}
		if err := write(filepath.Join(path, "below"), nil, 0o600); err == nil {
			t.Errorf("%s wrote below a file", name)
		}
		wantEntries(t, filepath.Dir(path), 1)
	}
}

func TestCreateOfSeveralOneWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	texts := []string{"a", "b", "c", "d"}
	errs := make([]error, len(texts))
	var wg sync.WaitGroup
	for i, text := range texts {
		wg.Go(func() { errs[i] = atomicfile.CreateDurable(path, []byte(strings.Repeat(text, 1000)), 0o600) })
	}
	wg.Wait()
	winner := ""
	for i, err := range errs {
		switch {
		case err == nil && winner == "":
			winner = texts[i]
		case err == nil, !errors.Is(err, fs.ErrExist):
			t.Errorf("writer %s: %v", texts[i], err)
		}
	}
	wantFile(t, path, strings.Repeat(winner, 1000), 0o600)
	wantEntries(t, filepath.Dir(path), 1)
}

func wantFile(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != text {
		t.Errorf("the file has %q (%v), want %q", got, err, text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != mode {
		t.Errorf("the mode is %v (%v), want %v", info.Mode(), err, mode)
	}
}

func wantEntries(t *testing.T, dir string, want int) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
		t.Errorf("the directory has %v (%v), want %d entries", entries, err, want)
	}
}
