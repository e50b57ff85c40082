package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
)

// removeImage removes an image at the end of the test.
func removeImage(t *testing.T, c *client.Client, name string) {
	t.Helper()
	t.Cleanup(func() {
		_, err := c.ImageRemove(context.WithoutCancel(t.Context()), name, client.ImageRemoveOptions{})
		if err != nil {
			t.Errorf("the image %s: %v", name, err)
		}
	})
}

func TestSnapshot(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		c := e.raw(t)
		sb := box(t, p, func(spec *core.Spec) {
			spec.Labels = map[string]string{"team": "x"}
			spec.Secrets = []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("s3cret")}}
			spec.Volumes = []core.Volume{{Source: "sb-test-" + core.NewName(), Target: "/data"}}
		})
		volume := sb.Spec.Volumes[0].Source
		t.Cleanup(func() {
			end(t, p, sb.ID)
			if _, err := c.VolumeRemove(context.WithoutCancel(t.Context()), volume, client.VolumeRemoveOptions{}); err != nil {
				t.Errorf("the volume: %v", err)
			}
		})
		if out, code := sh(
			t, p, sb.ID, "echo kept > /root/file; rm /bin/httpd; echo volume > /data/file; echo changed >> /etc/group",
		); code != 0 {
			t.Fatal(out)
		}
		changes, err := p.Diff(t.Context(), sb.ID)
		if err != nil || !slices.Contains(changes, core.Change{Path: "/root/file", Kind: "added"}) ||
			!slices.Contains(changes, core.Change{Path: "/bin/httpd", Kind: "deleted"}) ||
			!slices.Contains(changes, core.Change{Path: "/etc/group", Kind: "changed"}) {
			t.Errorf("the changes are %+v, %v", changes, err)
		}
		name := "localhost/sb-test-snapshot/" + sb.Name + ":one"
		snapshot, err := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		removeImage(t, c, name)
		if snapshot.ID != name || snapshot.Size == 0 {
			t.Errorf("the snapshot is %+v", snapshot)
		}
		found, err := c.ImageInspect(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		// The image names only the sandbox that it was made of.
		if got := found.Config.Labels[labelSnapshot]; got != sb.ID {
			t.Errorf("the image says that it was made of %q", got)
		}
		delete(found.Config.Labels, labelSnapshot)
		text, err := json.Marshal(found.Config)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"s3cret", "sb-guest", sb.ID} {
			if strings.Contains(string(text), secret) {
				t.Errorf("the image has %s: %s", secret, text)
			}
		}
		if found.Config.Labels[labelKey] != "" || found.Config.Labels[labelSpec] != "" ||
			found.Config.Labels[labelUser+"team"] != "" {
			t.Errorf("the image's labels are %v", found.Config.Labels)
		}
		// Podman's images have the format of OCI, which has no health checks.
		if check := found.Config.Healthcheck; !p.engine.Podman &&
			(check == nil || !slices.Equal(check.Test, []string{"CMD", "/bin/true"})) {
			t.Errorf("the image's health check is %+v", check)
		}
		again := box(t, p, func(spec *core.Spec) { spec.Image, spec.Snapshot = "", name })
		if out, _ := sh(
			t, p, again.ID, "cat /root/file; ls /bin/httpd /data 2>/dev/null; ls /.sb-*/journal | wc -l; echo ${TOKEN:-none}",
		); !strings.HasPrefix(out, "kept\n") || !strings.HasSuffix(out, "none\n") || strings.Contains(out, "httpd") ||
			strings.Contains(out, "volume") {
			t.Errorf("the sandbox launched from it has %q", out)
		}
		if execs, err := p.Execs(t.Context(), again.ID); err != nil || len(execs) != 1 {
			t.Errorf("its journal is %+v, %v", execs, err)
		}
	})
}

// An unchanged sandbox has no differences.
func TestSnapshotOfABadName(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, nil)
		_, err := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "BAD NAME!"})
		wantKind(t, err, core.KindUsage)
	})
}

func TestDiffOfNothing(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, nil)
		if changes, err := p.Diff(t.Context(), sb.ID); err != nil || len(changes) > 0 {
			t.Errorf("it differs in %+v, %v", changes, err)
		}
	})
}

// A snapshot is listed and removed by its given name, even if the engine stores a longer one.
func TestSnapshotByItsName(t *testing.T) {
	eachEngine(t, func(t *testing.T, e testEngine) {
		t.Helper()
		p := e.open(t, nil)
		sb := box(t, p, nil)
		name := "sb-test-snapshot/" + sb.Name + ":one"
		made, err := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: name})
		if err != nil || made.ID != name {
			t.Fatalf("%+v, %v", made, err)
		}
		list, err := p.Snapshots(t.Context())
		if err != nil || !slices.ContainsFunc(list, func(s core.Snapshot) bool { return s.ID == name }) {
			t.Errorf("listed are %+v, %v", list, err)
		}
		if err := p.RemoveSnapshot(t.Context(), name); err != nil {
			removeImage(t, e.raw(t), name)
			t.Error(err)
		}
		wantKind(t, p.RemoveSnapshot(t.Context(), name), core.KindNotFound)
	})
}

// The time for a completely changed tree is not quadratic in its files.
func TestManyChanges(t *testing.T) {
	changes := []core.Change{
		{Path: "/a", Kind: "changed"},
		{Path: "/a-b", Kind: "changed"},
		{Path: "/a/b", Kind: "changed"},
		{Path: "/a/b/c", Kind: "deleted"},
		{Path: "/d", Kind: "added"},
		{Path: "/d/e", Kind: "added"},
	}
	want := []core.Change{changes[1], changes[3], changes[4], changes[5]}
	if got := ownChanges(changes); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	many := make([]core.Change, 400_000)
	for i := range many {
		many[i] = core.Change{Path: fmt.Sprintf("/usr/share/file%06d", i), Kind: "changed"}
	}
	if got := ownChanges(many); len(got) != len(many) {
		t.Errorf("%d of %d are left", len(got), len(many))
	}
}
