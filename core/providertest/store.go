package providertest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// volumeStore makes a volume and removes it.
func (s *suite) volumeStore(t *testing.T) {
	p := s.provider(t)
	store, ok := optional[core.VolumeStore](t, p)
	if !ok {
		return
	}
	ctx, name := t.Context(), core.NewName()
	made, err := store.CreateVolume(ctx, name, core.VolumeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Name != name || made.Provider != p.Name() {
		t.Errorf("made %+v", made)
	}
	_, err = store.CreateVolume(ctx, name, core.VolumeOptions{})
	wantKind(t, err, core.KindConflict)
	has := func() bool {
		list, err := store.Volumes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list, func(v core.VolumeInfo) bool { return v.Name == name && v.Provider == p.Name() })
	}
	if !has() {
		t.Error("the volume is not listed")
	}
	if err := store.RemoveVolume(ctx, name); err != nil {
		t.Fatal(err)
	}
	if has() {
		t.Error("the volume is listed after it was removed")
	}
	wantKind(t, store.RemoveVolume(ctx, name), core.KindNotFound)
}

// volumes writes to a volume, and reads the files in a later sandbox that mounts it read-only. Sandboxes that run at
// the same time see each other's files, unless the provider is remote.
func (s *suite) volumes(t *testing.T) {
	p := s.provider(t)
	store, ok := optional[core.VolumeStore](t, p)
	if !ok || !p.Capabilities().Can(core.CapVolumes) {
		return
	}
	ctx, name, remote := t.Context(), core.NewName(), p.Capabilities().Remote
	if _, err := store.CreateVolume(ctx, name, core.VolumeOptions{}); err != nil {
		t.Fatal(err)
	}
	mount := func(readOnly bool) core.Sandbox {
		return launch(t, p, func(spec *core.Spec) {
			spec.Volumes = []core.Volume{{Source: name, Target: "/srv/data", ReadOnly: readOnly}}
		})
	}
	writer := mount(false)
	const line = "cd /srv/data; echo one > file; mkdir dir; ln -s ../file dir/link; chmod 640 file; cat dir/link"
	if r := sh(t, p, writer.ID, line); r.out != "one\n" {
		t.Fatalf("%+v", r)
	}
	if !remote {
		other := mount(false)
		if r := sh(t, p, other.ID, "cat /srv/data/file; echo two >> /srv/data/file"); r.out != "one\n" {
			t.Errorf("in another sandbox: %+v", r)
		}
		if r := sh(t, p, writer.ID, "cat /srv/data/file"); r.out != "one\ntwo\n" {
			t.Errorf("the write of another sandbox: %+v", r)
		}
		wantKind(t, store.RemoveVolume(ctx, name), core.KindConflict)
		if err := p.Terminate(ctx, other.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Terminate(ctx, writer.ID); err != nil {
		t.Fatal(err)
	}
	reader := mount(true)
	r := sh(t, p, reader.ID, "cd /srv/data; head -n 1 dir/link; stat -c %a file; echo x > new || echo refused")
	if r.out != "one\n640\nrefused\n" {
		t.Errorf("read-only, later: %+v", r)
	}
	if err := p.Terminate(ctx, reader.ID); err != nil {
		t.Fatal(err)
	}
	if err := store.RemoveVolume(ctx, name); err != nil {
		t.Error(err)
	}
}

// secretStore creates, replaces and removes a secret.
func (s *suite) secretStore(t *testing.T) {
	p := s.provider(t)
	store, ok := optional[core.SecretStore](t, p)
	if !ok {
		return
	}
	ctx, name := t.Context(), core.NewName()
	values := map[string]core.SecretValue{"TOKEN": core.NewSecretValue("s3cret")}
	made, err := store.CreateSecret(ctx, name, values, core.SecretOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Name != name || made.Provider != p.Name() {
		t.Errorf("made %+v", made)
	}
	_, err = store.CreateSecret(ctx, name, values, core.SecretOptions{})
	wantKind(t, err, core.KindConflict)
	if _, err := store.CreateSecret(ctx, name, values, core.SecretOptions{Replace: true}); err != nil {
		t.Errorf("replacing: %v", err)
	}
	list, err := store.Secrets(ctx)
	if err != nil || !slices.ContainsFunc(list, func(s core.SecretInfo) bool { return s.Name == name }) {
		t.Errorf("the secret is not listed: %+v, %v", list, err)
	}
	if err := store.RemoveSecret(ctx, name); err != nil {
		t.Fatal(err)
	}
	wantKind(t, store.RemoveSecret(ctx, name), core.KindNotFound)
}

// environmentStore makes an environment and removes it.
func (s *suite) environmentStore(t *testing.T) {
	p := s.provider(t)
	store, ok := optional[core.EnvironmentStore](t, p)
	if !ok {
		return
	}
	ctx, name := t.Context(), core.NewName()
	if _, err := store.CreateEnvironment(ctx, name); err != nil {
		t.Fatal(err)
	}
	_, err := store.CreateEnvironment(ctx, name)
	wantKind(t, err, core.KindConflict)
	list, err := store.Environments(ctx)
	if err != nil || !slices.ContainsFunc(list, func(e core.EnvironmentInfo) bool {
		return e.Name == name &&
			!e.Current
	}) {
		t.Errorf("the environment is not listed, or is the current one: %+v, %v", list, err)
	}
	if err := store.RemoveEnvironment(ctx, name); err != nil {
		t.Fatal(err)
	}
	wantKind(t, store.RemoveEnvironment(ctx, name), core.KindNotFound)
}

// imageStore pulls the default image, if any, and removes an image that does not exist.
func (s *suite) imageStore(t *testing.T) {
	p := s.provider(t)
	store, ok := optional[core.ImageStore](t, p)
	if !ok {
		return
	}
	ctx, name := t.Context(), first(p.Capabilities().Images)
	if _, err := store.PullImage(ctx, name, func(core.Progress) {}); err != nil {
		t.Fatal(err)
	}
	list, err := store.Images(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range list {
		if image.ID == "" || image.Provider != p.Name() {
			t.Errorf("an image is %+v", image)
		}
	}
	wantKind(t, store.RemoveImage(ctx, core.NewName()), core.KindNotFound)
	if !p.Capabilities().Can(core.CapPull) {
		return
	}
	// The pulled image needs no registry.
	sb := launch(t, p, func(spec *core.Spec) { spec.Image, spec.Pull = name, core.PullNever })
	if r := sh(t, p, sb.ID, "echo started"); r.out != "started\n" {
		t.Errorf("from the stored image: %+v", r)
	}
	_, err = p.Launch(ctx, core.Spec{Name: core.NewName(), Image: core.NewName(), Pull: core.PullNever}, core.Lease{}, nil)
	wantKind(t, err, core.KindNotFound)
}

// appStore finds the app of a sandbox and stops it.
func (s *suite) appStore(t *testing.T) {
	p := s.provider(t)
	store, ok := optional[core.AppStore](t, p)
	if !ok {
		return
	}
	app := core.NewName()
	sb := launch(t, p, func(spec *core.Spec) { spec.App = app })
	list, err := store.Apps(t.Context())
	if err != nil || !slices.ContainsFunc(list, func(a core.AppInfo) bool {
		return a.Name == app &&
			a.Provider == p.Name()
	}) {
		t.Errorf("the app is not listed: %+v, %v", list, err)
	}
	if err := store.StopApp(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the sandbox of a stopped app ends", func() bool {
		got, err := p.Get(t.Context(), sb.ID)
		return errors.Is(err, core.KindNotFound) || err == nil && !got.State.Live()
	})
}

// snapshots saves the files of a sandbox, starts another from them and removes the snapshot.
func (s *suite) snapshots(t *testing.T) {
	p := s.provider(t)
	snapshotter, ok := optional[core.Snapshotter](t, p)
	if !ok {
		return
	}
	ctx := t.Context()
	sb := launch(t, p, nil)
	if r := sh(t, p, sb.ID, "echo kept > /tmp/file; chmod 640 /tmp/file; ln -s file /tmp/link"); r.exit.Code != 0 {
		t.Fatalf("%+v", r)
	}
	made, err := snapshotter.Snapshot(ctx, sb.ID, core.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.ID == "" || made.Provider != p.Name() || made.Sandbox != sb.ID {
		t.Errorf("made %+v", made)
	}
	s.snapshotNames(t, p, snapshotter, sb.ID)
	store, kept := optional[core.SnapshotStore](t, p)
	if kept {
		list, err := store.Snapshots(ctx)
		if err != nil || !slices.ContainsFunc(list, func(other core.Snapshot) bool { return other.ID == made.ID }) {
			t.Errorf("the snapshot is not listed: %+v, %v", list, err)
		}
	}
	copied := launch(t, p, func(spec *core.Spec) { spec.Image, spec.Snapshot = "", made.ID })
	if r := sh(t, p, copied.ID, "cat /tmp/link; ls -l /tmp/file | cut -c1-10"); r.out != "kept\n-rw-r-----\n" {
		t.Errorf("in the sandbox from the snapshot: %+v", r)
	}
	if p.Capabilities().Can(core.CapSnapshotTTL) {
		short, err := snapshotter.Snapshot(ctx, sb.ID, core.SnapshotOptions{TTL: time.Hour})
		if left := time.Until(short.Expires); err != nil || left < 50*time.Minute || left > 70*time.Minute {
			t.Errorf("a snapshot for an hour ends in %s, %v", left, err)
		}
		if kept && err == nil {
			if err := store.RemoveSnapshot(ctx, short.ID); err != nil {
				t.Error(err)
			}
		}
	}
	if !kept {
		return
	}
	if err := p.Terminate(ctx, copied.ID); err != nil {
		t.Fatal(err)
	}
	if err := store.RemoveSnapshot(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, store.RemoveSnapshot(ctx, made.ID), core.KindNotFound)
}

// snapshotNames takes two snapshots of one name: the second succeeds only with Replace.
func (s *suite) snapshotNames(t *testing.T, p core.Provider, snapshotter core.Snapshotter, id string) {
	t.Helper()
	name := core.NewName()
	first, err := snapshotter.Snapshot(t.Context(), id, core.SnapshotOptions{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	latest := first.ID
	t.Cleanup(func() {
		if store, ok := p.(core.SnapshotStore); ok {
			if err := store.RemoveSnapshot(context.WithoutCancel(t.Context()), latest); err != nil {
				t.Error(err)
			}
		}
	})
	_, err = snapshotter.Snapshot(t.Context(), id, core.SnapshotOptions{Name: name})
	wantKind(t, err, core.KindConflict)
	if core.HintOf(err) == "" {
		t.Errorf("no hint goes with %v", err)
	}
	again, err := snapshotter.Snapshot(t.Context(), id, core.SnapshotOptions{Name: name, Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	latest = again.ID
}
