//go:build linux

package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Files that other users of the machine cannot read are not in a sandbox, even if root launches it.
func TestHostImageShowsWhatOthersCouldRead(t *testing.T) {
	overmount(t, "/opt")
	for _, dir := range []struct {
		name string
		mode os.FileMode
	}{
		{"closed", 0o700}, {"group", 0o750}, {"unlisted", 0o711}, {"named-only", 0o744}, {"open", 0o755}, {"mounted", 0o755},
	} {
		if err := os.Mkdir(filepath.Join("/opt", dir.name), 0o755); err != nil {
			t.Fatal(err)
		}
		writeHost(t, filepath.Join("/opt", dir.name, "public"), 0o644)
		writeHost(t, filepath.Join("/opt", dir.name, "private"), 0o600)
		writeHost(t, filepath.Join("/opt", dir.name, "shared"), 0o640)
		writeHost(t, filepath.Join("/opt", dir.name, "command"), 0o711)
		if err := os.Symlink("private", filepath.Join("/opt", dir.name, "link")); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join("/opt", dir.name), dir.mode); err != nil {
			t.Fatal(err)
		}
	}
	overmount(t, "/opt/mounted")
	writeHost(t, "/opt/mounted/other", 0o644)
	writeHost(t, "/opt/open/over", 0o644)
	if err := unix.Mount("/opt/mounted/other", "/opt/open/over", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}

	box := start(t, nil)
	out, _ := run(t, box, "/bin/sh", "-c", `cd /opt; find . | sort; echo --; cat */* 2>/dev/null; echo --
		for name in closed/public unlisted/public unlisted/private open/link open/over mounted/other; do cat $name 2>&1; done`)
	const want = `.
./closed
./group
./named-only
./open
./open/link
./open/public
./unlisted
--
/opt/open/public
--
`
	listed, errors := out[:min(len(out), len(want))], out[min(len(out), len(want)):]
	if listed != want {
		t.Errorf("shown is:\n%s", out)
	}
	for line := range strings.Lines(errors) {
		if !strings.Contains(line, "No such file") {
			t.Errorf("read: %s", line)
		}
	}
	// Hidden names can be written over.
	out, exit := run(
		t, box, "/bin/sh", "-ec",
		`cd /opt; echo mine > open/private; cat open/private; mkdir mounted closed/new; echo a > closed/new/file; find closed | wc -l`,
	)
	if exit.Code != 0 || out != "mine\n3\n" {
		t.Errorf("%d: %s", exit.Code, out)
	}
}

// overmount hides a directory of the machine, for this process, until the test ends.
func overmount(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("test", dir, "tmpfs", 0, "mode=0755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// writeHost writes a file that has its path as content.
func writeHost(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(path+"\n"), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
