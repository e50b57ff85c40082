//go:build linux

package inside

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/agent/guest"
)

func TestRemoveTreeOnly(t *testing.T) {
	dir := t.TempDir()
	tree, beside := filepath.Join(dir, "tree"), filepath.Join(dir, "beside")
	if err := errors.Join(os.MkdirAll(filepath.Join(tree, "a", "b"), 0o755), os.Mkdir(beside, 0o755),
		os.WriteFile(filepath.Join(beside, "kept"), nil, 0o600),
		os.Symlink(beside, filepath.Join(tree, "a", "out")),
		os.Symlink("..", filepath.Join(tree, "a", "b", "up"))); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * batch / 2 {
		if err := os.WriteFile(filepath.Join(tree, "a", "b", fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := request(guest.OpRemove, tree)
	r.Recursive = true
	if _, _, err := do(t, r, nil); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"beside"}) {
		t.Errorf("left are %q", got)
	}
	if _, err := os.Stat(filepath.Join(beside, "kept")); err != nil {
		t.Error(err)
	}
}

func TestRemoveEndsWithItsContext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "f"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := remove(ctx, dir, true); !errors.Is(err, context.Canceled) {
		t.Errorf("want it canceled, got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); err != nil {
		t.Error(err)
	}
}

func TestRemoveDoesNotCrossMounts(t *testing.T) {
	for _, dir := range []string{"/proc", "/proc/1", "/dev", "/sys"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) != nil {
			continue
		}
		if dir == "/proc/1" { // it is no mount, and its files cannot be removed; the test is that no link is followed
			continue
		}
		if err := checkMounts(dir); !errors.Is(err, core.KindConflict) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can mount something: the rest is tested as root")
	}
	dir := t.TempDir()
	mount := filepath.Join(dir, "tree", "with blank", "mount")
	if err := os.MkdirAll(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tree", "first"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("sb-test", mount, "tmpfs", 0, ""); err != nil {
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	kept := filepath.Join(mount, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := remove(t.Context(), filepath.Join(dir, "tree"), true)
	if !errors.Is(err, core.KindConflict) || !strings.Contains(err.Error(), "mounted") {
		t.Errorf("want a conflict, got %v", err)
	}
	for _, name := range []string{kept, filepath.Join(dir, "tree", "first")} {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was removed", name)
		}
	}
	// The device number reveals a mount that the list of mounts does not have.
	parent, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(parent) }()
	var st unix.Stat_t
	if err := unix.Fstat(parent, &st); err != nil {
		t.Fatal(err)
	}
	r := remover{ctx: t.Context(), device: st.Dev}
	if err := r.tree(parent, "tree", filepath.Join(dir, "tree")); !errors.Is(err, core.KindConflict) {
		t.Errorf("want a conflict, got %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}
