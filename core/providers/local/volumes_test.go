//go:build linux

package local_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/local"
	"github.com/seed-0724f904/sb/core/providertest"
)

func TestVolumes(t *testing.T) {
	dir, allowed, secret := t.TempDir(), t.TempDir(), t.TempDir()
	p, err := local.New(local.Options{
		StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"),
		Runtime: filepath.Join(programtest.Dir(), "sb-runtime"), HostDirs: []string{allowed},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Capabilities().Can(core.CapVolumes) {
		t.Error("volumes are not offered")
	}
	read, write := filepath.Join(allowed, "read"), filepath.Join(allowed, "write")
	for _, dir := range []string{read, write} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(allowed, "link")); err != nil {
		t.Fatal(err)
	}
	lease := core.Lease{Owner: core.CurrentOwner("test")}
	for _, refused := range []core.Volume{
		{Source: secret, Target: "/v"},
		{Source: filepath.Join(allowed, "link"), Target: "/v"},
		{Source: allowed + "/../" + filepath.Base(secret), Target: "/v"},
		{Source: allowed + "x", Target: "/v"},
		{Source: "named", Target: "/v"},
		{Source: read, Target: "/proc/x"},
		{Source: read, Target: "/"},
	} {
		sb, err := p.Launch(t.Context(), core.Spec{Name: "refused", Volumes: []core.Volume{refused}}, lease, nil)
		if err == nil {
			t.Errorf("%+v was mounted", refused)
			_ = p.Terminate(t.Context(), sb.ID)
		}
	}

	if err := os.WriteFile(filepath.Join(read, "given"), []byte("from outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	sb, err := p.Launch(t.Context(), core.Spec{Name: "volumes", Volumes: []core.Volume{
		{Source: read, Target: "/data/read", ReadOnly: true}, {Source: write, Target: "/data/write"},
	}}, lease, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Terminate(context.WithoutCancel(t.Context()), sb.ID); err != nil {
			t.Error(err)
		}
		_ = p.Close()
	})
	var out, stderr bytes.Buffer
	process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{
		Command: []string{
			"sh", "-c",
			"cat /data/read/given; echo inside >/data/write/file; mkdir /data/write/d; echo x >/data/read/given; rm -f " +
				"/data/read/given; test -e /data/read/given",
		},
		Stdout: &out, Stderr: &stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := process.Wait(providertest.Patient(t))
	_ = process.Close()
	if err != nil || exit.Code != 0 {
		t.Fatalf("exit %+v, %v: %s", exit, err, stderr.String())
	}
	if got, errors := out.String(), stderr.String(); got != "from outside" ||
		strings.Count(errors, "Read-only file system") != 2 {
		t.Errorf("inside: %q, %q", got, errors)
	}
	if text, err := os.ReadFile(filepath.Join(write, "file")); err != nil || string(text) != "inside\n" {
		t.Errorf("outside: %q, %v", text, err)
	}
}
