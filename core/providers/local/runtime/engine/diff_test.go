//go:build linux

package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
		t.Error("what was in a directory that was made again is not deleted")
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
