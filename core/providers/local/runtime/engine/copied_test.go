//go:build linux

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core/programtest"
)

// shared makes a host directory that other users cannot read.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "src")
	for name, text := range map[string]string{
		"main.go": "package main\n", "gone": "x", "sub/deep/file": "deep", "replaced/old": "old", "secret": "mine",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("main.go", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// content lists the files below a directory, with their text.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func kinds(t *testing.T, box *Box) map[string]string {
	t.Helper()
	changes, err := box.Diff()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range changes {
		got[c.Path] = c.Kind
	}
	return got
}

// TestCopyOnWrite changes a host directory inside, and saves and restores the sandbox. The host's files stay.
func TestCopyOnWrite(t *testing.T) {
	t.Run("this machine", func(t *testing.T) { copyOnWrite(t, "") })
	t.Run("image", func(t *testing.T) { copyOnWrite(t, busyboxImage(t)) })
}

func copyOnWrite(t *testing.T, image string) {
	t.Helper()
	dir := shared(t)
	before := content(t, dir)
	volume := func(c *Config) {
		c.RootImage = image
		c.Volumes = []Volume{{Source: dir, Target: "/srv/app", CopyOnWrite: true}}
	}
	first := start(t, volume)
	const line = `set -e; cd /srv/app; test "$(cat main.go link secret)" = "package main
package main
mine"; test "$(ls | wc -l)" = 6; test "$(cat sub/deep/file)" = deep
echo changed >> main.go; echo new > new; rm gone; mv sub moved; rm -r replaced; mkdir replaced; echo 1 > replaced/new`
	if out, exit := run(t, first, "sh", "-c", line); exit.Code != 0 {
		t.Fatal(out)
	}
	if diff := cmp.Diff(before, content(t, dir)); diff != "" {
		t.Fatalf("the host's files changed: %s", diff)
	}
	want := map[string]string{
		"/srv/app/main.go": "changed", "/srv/app/new": "added", "/srv/app/gone": "deleted", "/srv/app/sub": "deleted",
		"/srv/app/moved": "added", "/srv/app/moved/deep": "added", "/srv/app/moved/deep/file": "added",
		"/srv/app/replaced": "changed", "/srv/app/replaced/old": "deleted", "/srv/app/replaced/new": "added",
	}
	if diff := cmp.Diff(want, kinds(t, first)); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
	saved := t.TempDir()
	if err := first.SaveFS(saved); err != nil {
		t.Fatal(err)
	}
	second := start(t, func(c *Config) { volume(c); c.Restore = saved })
	const check = `cd /srv/app; cat main.go new moved/deep/file replaced/new; ls; ls replaced`
	out, exit := run(t, second, "sh", "-c", check)
	const kept = "package main\nchanged\nnew\ndeep1\nlink\nmain.go\nmoved\nnew\nreplaced\nsecret\nnew\n"
	if exit.Code != 0 || out != kept {
		t.Errorf("after a restore: %q, %+v", out, exit)
	}
	if diff := cmp.Diff(want, kinds(t, second)); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
}

// TestCopyOnWriteMany looks at more files than a process may have open.
func TestCopyOnWriteMany(t *testing.T) {
	programtest.Long(t)
	dir := shared(t)
	const directories, files = 40, 100
	for i := range directories {
		sub := filepath.Join(dir, fmt.Sprint("d", i))
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range files {
			if err := os.WriteFile(filepath.Join(sub, fmt.Sprint(j)), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	box := start(t, func(c *Config) { c.Volumes = []Volume{{Source: dir, Target: "/srv/app", CopyOnWrite: true}} })
	const line = "find /srv/app/d* -type f -size -2 -newermt 2000-01-01 | wc -l; cat /srv/app/d*/* | wc -c"
	out, exit := run(t, box, "sh", "-c", line)
	if want := fmt.Sprintf("%d\n%d\n", directories*files, directories*files); out != want || exit.Code != 0 {
		t.Errorf("%q instead of %q, %+v", out, want, exit)
	}
}

// TestCopyOnWriteRefused covers mounts that cannot be made as they were checked.
func TestCopyOnWriteRefused(t *testing.T) {
	dir := shared(t)
	link := filepath.Join(filepath.Dir(dir), "replaced")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	view := t.TempDir()
	if err := os.Symlink("/tmp", filepath.Join(view, "lead")); err != nil {
		t.Fatal(err)
	}
	for _, v := range []Volume{
		{Source: link, Target: "/srv/app"},
		{Source: filepath.Join(dir, "main.go"), Target: "/srv/app"},
		{Source: filepath.Join(dir, "missing"), Target: "/srv/app"},
		{Source: dir, Target: "/lead/app"},
	} {
		v.CopyOnWrite = true
		err := Config{Volumes: []Volume{v}}.showCopied(view)
		if err == nil {
			t.Errorf("%+v was mounted", v)
		}
	}
}

// TestCopyOnWriteInImage covers the image beside the mount.
func TestCopyOnWriteInImage(t *testing.T) {
	dir := shared(t)
	image := busyboxImage(t)
	box := start(t, func(c *Config) {
		c.RootImage = image
		c.Volumes = []Volume{
			{Source: dir, Target: "/srv/deep/app", CopyOnWrite: true},
			{Source: dir, Target: "/home/second", CopyOnWrite: true},
			{Source: dir, Target: "/other/ro", ReadOnly: true},
		}
	})
	for script, want := range map[string]string{
		"ls /":              "bin\ndev\netc\nhome\nother\nproc\nroot\nsrv\nsys\ntmp\nusr\n",
		"ls /srv /srv/deep": "/srv:\ndeep\n\n/srv/deep:\napp\n",
		"cat /home/second/sub/deep/file /srv/deep/app/main.go /other/ro/gone": "deeppackage main\nx",
		"echo new > /home/second/main.go; cat /srv/deep/app/main.go":          "package main\n",
		"hostname; tail -1 /etc/group; stat -c %a /tmp; busybox true":         "box\nextra:x:2000:dev\n1777\n",
	} {
		if out, exit := run(t, box, "sh", "-c", script); out != want || exit.Code != 0 {
			t.Errorf("%s: %q instead of %q", script, out, want)
		}
	}
	got := kinds(t, box)
	if got["/home/second/main.go"] != "changed" || got["/srv/deep/app/main.go"] != "" {
		t.Errorf("%v", got)
	}
	config := Config{RootImage: image, Volumes: []Volume{{Source: dir, Target: "/bin/sh/app", CopyOnWrite: true}}}
	root, err := openRootImage(image)
	if err != nil {
		t.Fatal(err)
	}
	defer root.image.Close()
	if err := config.checkCopied(root); err == nil {
		t.Error("a directory below a file is accepted")
	}
}
