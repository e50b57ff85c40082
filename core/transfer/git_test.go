package transfer

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

	"github.com/seed-0724f904/sb/core"
)

// repository returns a sandbox with a tree that has a repository.
func repository(t *testing.T) sender {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range [][2]string{
		{"p/", ""},
		{"p/-first.log", "x"},
		{"p/.git/", ""},
		{"p/.git/config", "evil"},
		{"p/.git/hooks/", ""},
		{"p/.git/hooks/post-commit", "evil"},
		{"p/.gitignore", "*.log\nbuild/\n"},
		{"p/a.log", "x"},
		{"p/build/", ""},
		{"p/build/out", "x"},
		{"p/main.go", "text"},
		{"p/sub/", ""},
		{"p/sub/.git", "gitdir: ../.git/modules/sub"},
		{"p/sub/.gitignore", "!keep.log\n"},
		{"p/sub/b.log", "x"},
		{"p/sub/keep.log", "x"},
	} {
		h := &tar.Header{Name: f[0], Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(f[1]))}
		if strings.HasSuffix(f[0], "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return sender{archive: b.Bytes(), got: &bytes.Buffer{}}
}

// files lists the files of a tree.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, err = filepath.Rel(dir, name)
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestGitIgnoreOfATreeInASandbox(t *testing.T) {
	want := []string{".gitignore", "main.go", "sub/.gitignore", "sub/keep.log"}
	target := filepath.Join(t.TempDir(), "p")
	if _, err := Copy(
		t.Context(), repository(t), Request{From: Endpoint{"box", "/p"}, To: Endpoint{"", target}, GitIgnore: true},
	); err != nil {
		t.Fatal(err)
	}
	if got := files(t, target); !slices.Equal(got, want) {
		t.Errorf("this machine has %q, want %q", got, want)
	}
	for name, to := range map[string]Endpoint{"sandbox": {"other", "/p"}, "stream": {"", "-"}} {
		box := repository(t)
		var stream bytes.Buffer
		if _, err := Copy(
			t.Context(), box, Request{From: Endpoint{"box", "/p"}, To: to, GitIgnore: true, Out: &stream},
		); err != nil {
			t.Fatal(err)
		}
		var got []string
		for r := tar.NewReader(io.MultiReader(box.got, &stream)); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if header.Typeflag == tar.TypeReg {
				got = append(got, strings.TrimPrefix(header.Name, "p/"))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the %s has %q, want %q", name, got, want)
		}
	}
}

func TestPushKeepsTargetRepository(t *testing.T) {
	mine := func(t *testing.T) string {
		t.Helper()
		parent := t.TempDir()
		git := filepath.Join(parent, "p", ".git")
		if err := errors.Join(
			os.MkdirAll(git, 0o700), os.WriteFile(filepath.Join(git, "config"), []byte("mine"), 0o600),
		); err != nil {
			t.Fatal(err)
		}
		return parent
	}
	t.Run("tree", func(t *testing.T) {
		parent := mine(t)
		result, err := Copy(t.Context(), repository(t), Request{From: Endpoint{"box", "/p"}, To: Endpoint{"", parent}})
		if err != nil {
			t.Fatal(err)
		}
		got := files(t, filepath.Join(parent, "p"))
		text, err := os.ReadFile(filepath.Join(parent, "p", ".git", "config"))
		if err != nil || string(text) != "mine" || slices.Contains(got, ".git/hooks/post-commit") ||
			!slices.Contains(got, "main.go") {
			t.Errorf("%q, config is %q, %v", got, text, err)
		}
		if len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], ".git") ||
			!strings.Contains(result.Warnings[0], "--include-git") {
			t.Errorf("warnings: %q", result.Warnings)
		}
	})
	t.Run("included", func(t *testing.T) {
		parent := mine(t)
		_, err := Copy(
			t.Context(), repository(t), Request{From: Endpoint{"box", "/p"}, To: Endpoint{"", parent}, IncludeGit: true},
		)
		text, readErr := os.ReadFile(filepath.Join(parent, "p", ".git", "config"))
		if err := errors.Join(err, readErr); err != nil || string(text) != "evil" {
			t.Errorf("config is %q, %v", text, err)
		}
	})
	t.Run("new", func(t *testing.T) {
		target := filepath.Join(t.TempDir(), "p")
		_, err := Copy(t.Context(), repository(t), Request{From: Endpoint{"box", "/p"}, To: Endpoint{"", target}})
		if _, statErr := os.Stat(filepath.Join(target, ".git", "config")); err != nil || statErr != nil {
			t.Errorf("%v, %v", err, statErr)
		}
	})
	for name, to := range map[string]string{"below": "p/.git/hooks/post-commit", "itself": "p/.git"} {
		t.Run(name, func(t *testing.T) {
			target := filepath.Join(mine(t), to)
			if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, box := range []sender{repository(t), {file: true}} {
				_, err := Copy(t.Context(), box, Request{From: Endpoint{"box", "/config"}, To: Endpoint{"", target}})
				if !errors.Is(err, core.KindConflict) {
					t.Errorf("want a conflict, got %v", err)
				}
			}
		})
	}
}
