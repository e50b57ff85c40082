//go:build linux

package engine

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core/agent/guest"
	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
	"github.com/seed-0724f904/sb/core/providers/local/image"
	"github.com/seed-0724f904/sb/core/providers/local/image/erofs"
)

// busyboxImage stores an image with busybox-static, and returns its EROFS file.
func busyboxImage(tb testing.TB) string {
	tb.Helper()
	archive, err := dockertest.Archive("busybox:test")
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	file := filepath.Join(dir, "busybox.tar")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		tb.Fatal(err)
	}
	store, err := image.Open(filepath.Join(dir, "images"))
	if err != nil {
		tb.Fatal(err)
	}
	stored, err := store.Pull(tb.Context(), "docker-archive:"+file, image.PullOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return stored.Path
}

// linkImage writes an image whose directories are links.
func linkImage(tb testing.TB, links ...string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "root.erofs")
	file, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	w := erofs.Create(file)
	for _, name := range []string{"dev", "proc", "sys", "root"} {
		attr := erofs.Attr{Mode: erofs.TypeDir | 0o755}
		if slices.Contains(links, name) {
			attr = erofs.Attr{Mode: erofs.TypeLink | 0o777, Target: "root"}
		}
		if err := w.Root.Add(name, erofs.NewNode(attr)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Finish([16]byte{}); err != nil {
		tb.Fatal(err)
	}
	return path
}

func TestRootImage(t *testing.T) {
	image := busyboxImage(t)
	box := start(t, func(c *Config) { c.RootImage = image })
	for _, test := range []struct{ name, script, out string }{
		{"nothing of this machine", "ls /", "bin\ndev\netc\nhome\nproc\nroot\nsys\ntmp\nusr\n"},
		{"names", "hostname; cat /etc/hostname; grep box /etc/hosts", "box\nbox\n127.0.1.1\tbox\n"},
		{"own files", "echo 127.0.0.1 me >> /etc/hosts && grep me /etc/hosts", "127.0.0.1 me\n"},
		{"bounded files", "dd if=/dev/zero of=/etc/hosts bs=64k 2>&1 | grep -c 'No space left'", "1\n"},
		{
			"writable",
			"echo x > /bin/new && cat /bin/new && busybox chown 5:6 /bin/new && stat -c %u:%g /bin/new; " +
				"echo y >> /etc/group; tail -2 /etc/group",
			"x\n5:6\nextra:x:2000:dev\ny\n",
		},
		{"temporary files count as disk", "grep -c /tmp /proc/mounts; stat -c %a /tmp", "0\n1777\n"},
		{"devices", "stat -c %F /dev/null /dev/pts /dev/shm", "character special file\ndirectory\ndirectory\n"},
		{
			"the helper stays", "rm -f " + GuestPath + " 2>/dev/null; echo x 2>/dev/null > " + GuestPath +
				"; mv /dev /away 2>/dev/null; stat -c %s " + GuestPath + " | wc -l", "1\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, _ := run(t, box, "sh", "-c", test.script)
			// A shell's message about its own failed redirection has no stable text.
			lines := strings.Split(out, "\n")
			out = strings.Join(cutPrefixed(lines, "sh: "), "\n")
			if out != test.out {
				t.Errorf("%q; want %q", out, test.out)
			}
		})
	}
	if out, exit := run(t, box, "sh", "-c", "dd if=/dev/zero of=/root/full bs=1M count=400"); exit.Code == 0 ||
		!strings.Contains(out, "No space left") {
		t.Errorf("filling the disk: %q, %+v", out, exit)
	}
}

func cutPrefixed(lines []string, prefix string) []string {
	var rest []string
	for _, line := range lines {
		if !strings.HasPrefix(line, prefix) {
			rest = append(rest, line)
		}
	}
	return rest
}

// The helper is mounted below /dev: a link there would lead to a directory that root inside can write.
func TestRootImageWithLinks(t *testing.T) {
	for _, name := range []string{"dev", "proc", "sys"} {
		image := linkImage(t, name)
		dir := t.TempDir()
		_, err := Start(t.Context(), Config{Dir: dir, OverlayDir: filepath.Join(dir, "overlay"), RootImage: image})
		if err == nil || !strings.Contains(err.Error(), "/"+name+" is not a directory") {
			t.Errorf("an image with a link at %s: %v", name, err)
		}
	}
}

func TestRootImageSaveAndRestore(t *testing.T) {
	image := busyboxImage(t)
	first := start(t, func(c *Config) { c.RootImage = image })
	if changes, err := first.Diff(); err != nil || len(changes) != 0 {
		t.Errorf("a fresh sandbox differs: %+v, %v", changes, err)
	}
	const script = `echo kept > /root/file && busybox chown 5:6 /root/file && rm /etc/group && chmod 4711 /bin/busybox &&
		rmdir /home && echo me >> /etc/hosts && echo x > /tmp/file`
	if out, exit := run(t, first, "sh", "-c", script); exit.Code != 0 {
		t.Fatal(out)
	}
	saved := filepath.Join(t.TempDir(), "gen")
	if err := first.SaveFS(saved); err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	second := start(t, func(c *Config) { c.RootImage, c.Restore, c.Hostname = image, saved, "other" })
	out, exit := run(t, second, "sh", "-c",
		"cat /root/file /tmp/file /etc/hostname; stat -c %u:%g /root/file; ls -d /etc/group /home 2>/dev/null | wc -l; "+
			"grep -c me /etc/hosts")
	if out != "kept\nx\nother\n5:6\n0\n0\n" {
		t.Errorf("restored: %q, %+v", out, exit)
	}
	changes, err := second.Diff()
	have := map[string]string{}
	for _, c := range changes {
		have[c.Path] = c.Kind
	}
	want := map[string]string{
		"/root/file": "added", "/tmp/file": "added", "/bin/busybox": "changed", "/etc/group": "deleted", "/home": "deleted",
	}
	if diff := cmp.Diff(want, have); diff != "" || err != nil {
		t.Errorf("%v; want -, have +:\n%s", err, diff)
	}
}

func TestRootImageCheckpoint(t *testing.T) {
	image := busyboxImage(t)
	source := start(t, func(c *Config) { c.RootImage = image })
	kept, out := spawn(t, source, guest.Spawn{ID: "1", Argv: []string{"sh", "-c", count}})
	number(t, out)
	if out, exit := run(t, source, "sh", "-c", "echo kept > /root/file; rm /etc/group"); exit.Code != 0 {
		t.Fatal(out)
	}
	dir := filepath.Join(t.TempDir(), "image")
	if err := source.Checkpoint(dir); err != nil {
		t.Fatal(err)
	}
	if n := number(t, out); n == 0 {
		t.Error("the source does not go on")
	}
	if err := source.Stop(); err != nil {
		t.Fatal(err)
	}
	_, _ = ended(t, kept)
	fork := start(t, func(c *Config) {
		c.RootImage, c.Hostname = image, "copy"
		c.Image = func(context.Context) (string, error) { return dir, nil }
	})
	_, more := spawn(t, fork, guest.Spawn{ID: "1", Attach: true})
	first := number(t, more)
	if next := number(t, more); next != first+1 {
		t.Errorf("it counts %d after %d", next, first)
	}
	text, exit := run(t, fork, "sh", "-c", "cat /root/file /etc/hostname; hostname; ls /etc/group 2>/dev/null; ls /bin/sh")
	if text != "kept\ncopy\ncopy\n/bin/sh\n" {
		t.Errorf("the copy has %q, %+v", text, exit)
	}
}
