//go:build linux

package modaltest_test

import (
	"os/exec"
	"strings"
	"testing"
)

// pip installs packages if this machine has pip. Without pip the build reports that, for any packages.
func TestPip(t *testing.T) {
	r := newRig(t, nil)
	image := r.client.Images.FromRegistry("python:3.12-slim", nil)
	_, err := image.DockerfileCommands(
		[]string{"RUN python -m pip --version && false", "RUN python -m pip install x"}, nil,
	).Build(t.Context(), r.app, nil)
	if err == nil {
		t.Fatal("a step that fails is no error")
	}
	there := exec.CommandContext(t.Context(), "python3", "-m", "pip", "--version").Run() == nil
	if explained := strings.Contains(err.Error(), "has no pip"); explained == there ||
		strings.Contains(err.Error(), "not found") {
		t.Errorf("this machine has pip: %t, and the build says: %v", there, err)
	}
}

// aptRepository is a Dockerfile's step that makes apt's only source a repository of one package in the image.
const aptRepository = `RUN <<EOF
set -e
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*
mkdir -p /repository /tmp/p/DEBIAN /tmp/p/usr/bin
cat >/tmp/p/DEBIAN/control <<CONTROL
Package: sb-greeting
Version: 1.0
Architecture: all
Maintainer: sb <sb@example.com>
Description: a package of a test
CONTROL
printf '#!/bin/sh\necho greetings\n' >/tmp/p/usr/bin/sb-greeting
chmod 755 /tmp/p/usr/bin/sb-greeting
dpkg-deb --build --root-owner-group /tmp/p /repository/sb-greeting.deb
cp /tmp/p/DEBIAN/control /repository/Packages
printf 'Filename: ./sb-greeting.deb\nSize: %s\nSHA256: %s\n' "$(stat -c %s /repository/sb-greeting.deb)" "$(sha256sum </repository/sb-greeting.deb | cut -d' ' -f1)" >>/repository/Packages
echo 'deb [trusted=yes] file:/repository ./' >/etc/apt/sources.list
EOF`

// apt installs packages like sb's --apt. The repository is in the image, so that no network is needed. The build has
// this machine's apt settings without credentials, and its system accounts without regular users.
func TestApt(t *testing.T) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("images here have this machine's programs, and this machine has no apt-get")
	}
	r := newRig(t, nil)
	const install = "RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends " +
		"'sb-greeting' && rm -rf /var/lib/apt/lists/*"
	image, err := r.image.DockerfileCommands([]string{"RUN ls -R /etc/apt >/settings", aptRepository}, nil).
		DockerfileCommands([]string{install}, nil).Build(t.Context(), r.app, nil)
	if err != nil {
		t.Fatal(err)
	}
	sb, err := r.client.Sandboxes.Create(t.Context(), r.app, image, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Detach() })
	if out := run(t, sb, "sb-greeting; dpkg-query --show sb-greeting"); out != "greetings\nsb-greeting\t1.0\n" {
		t.Errorf("the package says %q", out)
	}
	if out := run(t, sb, "cut -d: -f1,2,5 /etc/passwd"); !strings.Contains(out, "\ngames:x:\n") ||
		strings.Count("\n"+out, "\nroot:") != 1 {
		t.Errorf("the accounts are %s", out)
	}
	if out := run(t, sb, "cat /settings"); !strings.Contains(out, "trusted.gpg.d") || strings.Contains(out, "auth.conf") {
		t.Errorf("apt's settings are %s", out)
	}
}
