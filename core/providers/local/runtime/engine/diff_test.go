//go:build linux

package engine

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core"
)

func TestDiff(t *testing.T) {
	box := start(t, nil)
	run(t, box, "cat", "/etc/hostname")
	if changes, err := box.Diff(); err != nil || len(changes) != 0 {
		t.Errorf("a fresh sandbox differs: %+v, %v", changes, err)
	}
	const line = `echo new > /root/new; mkdir -p /srv/dir/sub; echo x > /srv/dir/sub/file; echo box2 > /etc/hostname
rm /usr/bin/yes; ln -s new /root/link; touch /root/gone; rm /root/gone; chmod 700 /usr/bin/env
rm -r /etc/alternatives; mkdir /etc/alternatives; rm -r /usr/share/doc; echo file > /usr/share/doc; touch /opt/x; rm /opt/x; chmod 2711 /var/lib`
	if out, exit := run(t, box, "sh", "-c", line); exit.Code != 0 {
		t.Fatal(out)
	}
	changes, err := box.Diff()
	if err != nil {
		t.Fatal(err)
	}
	rest := map[string]string{}
	alternatives := 0
	for _, c := range changes {
		if len(c.Path) > len("/etc/alternatives/") && c.Path[:len("/etc/alternatives/")] == "/etc/alternatives/" &&
			c.Kind == "deleted" {
			alternatives++
			continue
		}
		rest[c.Path] = c.Kind
	}
	want := map[string]string{
		"/root/new": "added", "/root/link": "added", "/srv/dir": "added", "/srv/dir/sub": "added",
		"/srv/dir/sub/file": "added",
		"/etc/hostname":     "changed", "/usr/bin/env": "changed", "/usr/bin/yes": "deleted", "/usr/share/doc": "changed",
		"/var/lib": "changed",
	}
	if diff := cmp.Diff(want, rest); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
	if alternatives == 0 {
		t.Error("a file of a directory that was removed and made again is not deleted")
	}
}

func TestDiffAfterRestore(t *testing.T) {
	first := start(t, nil)
	if out, exit := run(t, first, "sh", "-c", "rm /etc/hosts /usr/bin/yes; echo x > /root/new"); exit.Code != 0 {
		t.Fatal(out)
	}
	saved := t.TempDir()
	if err := first.SaveFS(saved); err != nil {
		t.Fatal(err)
	}
	second := start(t, func(c *Config) { c.Restore = saved })
	changes, err := second.Diff()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range changes {
		got[c.Path] = c.Kind
	}
	want := map[string]string{"/etc/hosts": "deleted", "/usr/bin/yes": "deleted", "/root/new": "added"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
}

// The archive has the bytes that the sandbox reads, holes included.
func TestLayer(t *testing.T) {
	box := start(t, func(c *Config) { c.Limits.Disk = 64 << 20 })
	const line = `cd /root; : > empty; echo text > text; ln text linked; truncate -s 5000001 sparse
printf head | dd of=sparse conv=notrunc status=none
printf middle | dd of=sparse bs=1 seek=2345678 conv=notrunc status=none
printf tail | dd of=sparse bs=1 seek=4999997 conv=notrunc status=none; truncate -s 8192 hole; cp /usr/bin/env env
head -c 300000 /dev/urandom > random; dd if=random of=random bs=4096 seek=1 count=7 conv=notrunc status=none
sha256sum empty text linked sparse hole env random`
	out, exit := run(t, box, "sh", "-c", line)
	if exit.Code != 0 {
		t.Fatal(out)
	}
	if err := box.Pause(); err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- errors.Join(box.Layer(writer), writer.Close()) }()
	sums := map[string]string{}
	for archive := tar.NewReader(reader); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name, mine := strings.CutPrefix(header.Name, "./root/")
		if !mine || name == "" {
			continue
		}
		if header.Typeflag == tar.TypeLink {
			// Either name of the file can be the link, but the other one comes first.
			sums[name] = sums[strings.TrimPrefix(header.Linkname, "./root/")]
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, archive); err != nil {
			t.Fatal(err)
		}
		sums[name] = hex.EncodeToString(sum.Sum(nil))
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		want[fields[1]] = fields[0]
	}
	if diff := cmp.Diff(want, sums); diff != "" {
		t.Errorf("want -, have +:\n%s", diff)
	}
	if err := box.Resume(); err != nil {
		t.Fatal(err)
	}
	if out, exit := run(t, box, "truncate", "-s", "64M", "/root/more"); exit.Code != 0 {
		t.Fatal(out)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if err := box.Layer(null); !errors.Is(err, core.KindExhausted) {
		t.Errorf("a layer above the limit of disk space: %v", err)
	}
}
