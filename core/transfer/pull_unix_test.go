//go:build unix

package transfer

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A target that is not a regular file is written to, not replaced. As root, a pull to /dev/null would otherwise replace
// it for all programs.
func TestPullIntoAPipe(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if err := pull(t, sender{file: true}, pipe); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		t.Fatalf("the pipe is %v, %v", info.Mode(), err)
	}
	text := make([]byte, 4)
	if _, err := io.ReadFull(r, text); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}

// A link stays a link, as /dev/stdout must. Its target is replaced.
func TestPullThroughALink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := pull(t, sender{file: true}, link); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if to, linkErr := os.Readlink(link); err != nil || linkErr != nil || to != "file" || string(text) != "text" {
		t.Errorf("%q, %v; the link leads to %q, %v", text, err, to, linkErr)
	}
}
