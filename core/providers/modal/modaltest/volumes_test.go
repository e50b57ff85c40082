//go:build linux

package modaltest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// A sandbox sees another one's writes to a volume after a commit and a reload, also below a sub-path. A read-only
// volume is not written. Removed files disappear.
func TestVolumes(t *testing.T) {
	r := newRig(t, nil)
	volume, err := r.client.Volumes.FromName(t.Context(), "shared", &sdk.VolumeFromNameParams{CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	mount := func(v *sdk.Volume) *sdk.Sandbox {
		return r.create(&sdk.SandboxCreateParams{Volumes: map[string]*sdk.Volume{"/vol": v}})
	}
	sub, readOnly := "below/here", true
	first, second := mount(volume), mount(volume)
	run(
		t, first,
		"mkdir -p /vol/below/here && echo one >/vol/below/here/file && ln -s file /vol/below/here/link && echo old "+
			">/vol/old && chmod 640 /vol/old",
	)
	if out := run(t, second, "ls /vol"); out != "" {
		t.Errorf("a file is there before it was committed: %q", out)
	}
	reload := func(sb *sdk.Sandbox) {
		t.Helper()
		if err := sb.ReloadVolumes(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	reload(first)
	reload(second)
	if out := run(t, second, "cat /vol/below/here/link; stat -c %a /vol/old"); out != "one\n640\n" {
		t.Errorf("the second sandbox sees %q", out)
	}
	part := mount(volume.WithMountOptions(&sdk.VolumeMountOptionsParams{SubPath: &sub}))
	reader := mount(volume.WithMountOptions(&sdk.VolumeMountOptionsParams{ReadOnly: &readOnly}))
	run(t, part, "cat /vol/file && echo two >/vol/file && ln -s /etc/passwd /vol/outside")
	run(t, second, "rm /vol/old")
	reload(part)
	reload(second)
	reload(reader)
	if out := run(
		t, reader, "cat /vol/below/here/file; ls /vol; readlink /vol/below/here/outside",
	); out != "two\nbelow\n/etc/passwd\n" {
		t.Errorf("the reader sees %q", out)
	}
	for _, script := range []string{"echo x >/vol/new", "rm /vol/below/here/file", "echo x >/vol/below/here/file"} {
		if out, code := try(t, reader, script); code == 0 || !strings.Contains(out, "Read-only file system") {
			t.Errorf("%s: exit code %d, %q", script, code, out)
		}
	}
	// The end of a sandbox also commits.
	if err := first.Detach(); err != nil {
		t.Fatal(err)
	}
	writer := r.create(&sdk.SandboxCreateParams{
		Volumes: map[string]*sdk.Volume{"/vol": volume}, Command: []string{"sh", "-c", "echo three >/vol/end"},
	})
	if code, err := writer.Wait(providertest.Patient(t), nil); err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	if out := run(t, mount(volume), "cat /vol/end"); out != "three\n" {
		t.Errorf("after the end: %q", out)
	}
}

// A bucket is a folder. A bucket that the server does not have is rejected.
func TestBuckets(t *testing.T) {
	folder := ""
	r := newRig(t, func(o *modaltest.Options) {
		folder = filepath.Join(o.Dir, "bucket")
		o.Buckets = map[string]string{"data": folder}
	})
	bucket := func(name, prefix string, readOnly bool) map[string]*sdk.CloudBucketMount {
		mount, err := r.client.CloudBucketMounts.New(
			name, &sdk.CloudBucketMountParams{KeyPrefix: &prefix, ReadOnly: readOnly},
		)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*sdk.CloudBucketMount{"/bucket": mount}
	}
	sb := r.create(&sdk.SandboxCreateParams{CloudBucketMounts: bucket("data", "part/", false)})
	run(t, sb, "echo x >/bucket/object")
	if text, err := os.ReadFile(filepath.Join(folder, "part", "object")); err != nil || string(text) != "x\n" {
		t.Errorf("the bucket has %q, %v", text, err)
	}
	reader := r.create(&sdk.SandboxCreateParams{CloudBucketMounts: bucket("data", "part/", true)})
	if out, code := try(t, reader, "cat /bucket/object && echo y >/bucket/object"); code == 0 ||
		!strings.HasPrefix(out, "x\n") {
		t.Errorf("exit code %d, %q", code, out)
	}
	_, err := r.client.Sandboxes.Create(
		t.Context(), r.app, r.image, &sdk.SandboxCreateParams{CloudBucketMounts: bucket("none", "part/", false)},
	)
	if err == nil || !strings.Contains(err.Error(), "--bucket NAME=DIR") {
		t.Errorf("an unknown bucket: %v", err)
	}
}
