//go:build linux

package local

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/docker/dockertest"
	"github.com/seed-0724f904/sb/core/providers/local/store"
	"github.com/seed-0724f904/sb/core/providertest"
)

// fromImage is a provider with another default image.
type fromImage struct {
	*Provider
	image string
}

func (p fromImage) Capabilities() core.Capabilities {
	caps := p.Provider.Capabilities()
	caps.Images = []string{p.image}
	return caps
}

func TestContractFromImage(t *testing.T) {
	programtest.Long(t)
	t.Setenv("SB_SUITE_SECRET", "the host's")
	open := opener(t, nil)
	ref := busyboxImage(t, nil)
	from := func(tb testing.TB) core.Provider {
		tb.Helper()
		return fromImage{opened(tb, open), ref}
	}
	providertest.Run(t, from)
	providertest.RunDiff(t, from)
}

func opened(tb testing.TB, open providertest.Opener) *Provider {
	tb.Helper()
	p, ok := open(tb).(*Provider)
	if !ok {
		tb.Fatal("the opener is not of this package")
	}
	return p
}

// busyboxImage writes the image of Docker's tests to a file, and returns the reference to it.
func busyboxImage(tb testing.TB, change func(*v1.Config)) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "busybox.tar")
	writeBusybox(tb, file, change)
	return "docker-archive:" + file
}

func writeBusybox(tb testing.TB, file string, change func(*v1.Config)) {
	tb.Helper()
	const tag = "busybox:test"
	archive, err := dockertest.Archive(tag)
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		tb.Fatal(err)
	}
	if change == nil {
		return
	}
	image, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		tb.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		tb.Fatal(err)
	}
	change(&config.Config)
	if image, err = mutate.Config(image, config.Config); err != nil {
		tb.Fatal(err)
	}
	changed := file + ".changed"
	if err := tarball.WriteToFile(changed, name.MustParseReference(tag), image); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(changed, file); err != nil {
		tb.Fatal(err)
	}
}

// launchFrom launches a sandbox that ends with the test.
func launchFrom(t *testing.T, p *Provider, change func(*core.Spec)) core.Sandbox {
	t.Helper()
	spec := core.Spec{
		Name: core.NewName(), Network: core.Network{Mode: core.NetworkNone}, Memory: 512 * core.MiB,
		Disk: 256 * core.MiB, Processes: 256,
	}
	change(&spec)
	sb, err := p.Launch(t.Context(), spec, core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	endWith(t, p, sb)
	return sb
}

func endWith(t *testing.T, p *Provider, sb core.Sandbox) {
	t.Helper()
	t.Cleanup(func() {
		if err := p.Terminate(context.WithoutCancel(t.Context()), sb.ID); err != nil && !errors.Is(err, core.KindNotFound) {
			t.Error(err)
		}
	})
}

// outputOf runs a command and returns its output.
func outputOf(t *testing.T, p *Provider, id string, spec core.ExecSpec) string {
	t.Helper()
	var out bytes.Buffer
	spec.Stdout, spec.Stderr = &out, &out
	process, err := p.Exec(t.Context(), id, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	if _, err := process.Wait(providertest.Patient(t)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestConfigurationOfAnImage(t *testing.T) {
	ref := busyboxImage(t, func(c *v1.Config) {
		c.User, c.WorkingDir = "dev:extra", "/srv/app"
		c.Env = append(c.Env, "COLOR=red", "SHAPE=round")
	})
	p := opened(t, opener(t, nil))
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image, spec.Env = ref, map[string]string{"COLOR": "blue"} })
	shell := func(line string) core.ExecSpec { return core.ExecSpec{Command: []string{"sh", "-c", line}} }
	for what, test := range map[string]struct {
		spec core.ExecSpec
		out  string
	}{
		"user":        {shell("id -u; id -g; id -G; echo $HOME"), "1000\n2000\n2000\n/home\n"},
		"directory":   {shell("pwd"), "/srv/app\n"},
		"environment": {shell("echo $COLOR $SHAPE $FROM_IMAGE $LANG"), "blue round yes\n"},
		"own user": {
			core.ExecSpec{Command: []string{"sh", "-c", "id -u; id -g; pwd"}, User: "root", Workdir: "/"}, "0\n0\n/\n",
		},
		"user without an entry": {core.ExecSpec{Command: []string{"sh", "-c", "id -u; id -g"}, User: "77"}, "77\n0\n"},
		"nothing of this machine": {
			core.ExecSpec{Command: []string{"ls", "/", "/usr", "/usr/bin"}, User: "root"},
			"/:\nbin\ndev\netc\nhome\nproc\nroot\nsrv\nsys\ntmp\nusr\n\n/usr:\nbin\n\n/usr/bin:\nyes\n",
		},
	} {
		if out := outputOf(t, p, sb.ID, test.spec); out != test.out {
			t.Errorf("%s: %q, want %q", what, out, test.out)
		}
	}
	if _, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"true"}, User: "user"}); !errors.Is(
		err, core.KindUsage,
	) {
		t.Errorf("a user of this machine's view is known: %v", err)
	}
}

// Forks, checkpoints, snapshots and restarts of a sandbox keep its image, even if the reference names another one now.
func TestImageIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "busybox.tar")
	writeBusybox(t, file, nil)
	p := opened(t, opener(t, nil))
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image, spec.Persist = "docker-archive:"+file, true })
	images, err := p.Images(t.Context())
	if err != nil || len(images) != 1 {
		t.Fatalf("%+v, %v", images, err)
	}
	id := images[0].ID
	writeBusybox(t, file, func(c *v1.Config) { c.Env = append(c.Env, "OTHER=yes") })
	if other, err := p.PullImage(t.Context(), "docker-archive:"+file, nil); err != nil || other.ID == id {
		t.Fatalf("%+v, %v", other, err)
	}
	same := func(what string, sb core.Sandbox) {
		t.Helper()
		line := "cat /root/file; ls /usr/bin; echo $OTHER"
		if out := outputOf(t, p, sb.ID, core.ExecSpec{Command: []string{"sh", "-c", line}}); out != "kept\nyes\n\n" {
			t.Errorf("%s has %q", what, out)
		}
	}
	outputOf(t, p, sb.ID, core.ExecSpec{Command: []string{"sh", "-c", "echo kept > /root/file"}})
	lease := core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}
	fork, err := p.Fork(t.Context(), sb.ID, core.ForkSpec{Name: core.NewName()}, lease)
	if err != nil {
		t.Fatal(err)
	}
	endWith(t, p, fork)
	same("the fork", fork)
	if _, err := p.Checkpoint(t.Context(), sb.ID, "check"); err != nil {
		t.Fatal(err)
	}
	same("the sandbox from the checkpoint", launchFrom(t, p, func(spec *core.Spec) {
		spec.Checkpoint = "check"
	}))
	if _, err := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "snap"}); err != nil {
		t.Fatal(err)
	}
	same("the sandbox from the snapshot", launchFrom(t, p, func(spec *core.Spec) { spec.Snapshot = "snap" }))
	if err := p.Stop(t.Context(), sb.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	same("the started sandbox", sb)

	refuse := func(user string) {
		t.Helper()
		err := p.RemoveImage(t.Context(), id)
		if !errors.Is(err, core.KindConflict) || !strings.Contains(err.Error(), user) {
			t.Errorf("removing the image of %s: %v", user, err)
		}
	}
	refuse("sandbox")
	for _, end := range []string{sb.ID, fork.ID} {
		if err := p.Terminate(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	all, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range all {
		if err := p.Terminate(t.Context(), left.ID); err != nil {
			t.Fatal(err)
		}
	}
	refuse("snap")
	if err := p.RemoveSnapshot(t.Context(), "snap"); err != nil {
		t.Fatal(err)
	}
	refuse("check")
	if err := p.RemoveCheckpoint(t.Context(), "check"); err != nil {
		t.Fatal(err)
	}
	if err := p.RemoveImage(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func TestImageIsLost(t *testing.T) {
	p := opened(t, opener(t, nil))
	ref := busyboxImage(t, nil)
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image, spec.Persist = ref, true })
	if err := p.Stop(t.Context(), sb.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(p.store.ImagesDir()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start(t.Context(), sb.ID); !errors.Is(err, core.KindConflict) ||
		!strings.Contains(err.Error(), "sha256:") {
		t.Errorf("starting without its image: %v", err)
	}
	if _, err := p.PullImage(t.Context(), ref, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start(t.Context(), sb.ID); err != nil {
		t.Errorf("with its image again: %v", err)
	}
}

// Saved files are useless without their image, so the image is also recorded outside the lease.
func TestImageIsKnownWithoutTheLease(t *testing.T) {
	p := opened(t, opener(t, nil))
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image, spec.Persist = busyboxImage(t, nil), true })
	if err := p.Stop(t.Context(), sb.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	leases, err := filepath.Glob(filepath.Join(p.store.Dir(sb.ID), store.ClientDir, "lease.json*"))
	if err != nil || len(leases) < 2 {
		t.Fatalf("%v, %v", leases, err)
	}
	for _, file := range leases {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "snap"}); err != nil {
		t.Fatal(err)
	}
	again := launchFrom(t, p, func(spec *core.Spec) { spec.Snapshot = "snap" })
	if out := output(t, p, again.ID, "ls /usr/bin"); out != "yes\n" {
		t.Errorf("from the snapshot: %q", out)
	}
}

// A launch without a usable image leaves nothing.
func TestLaunchWithoutItsImage(t *testing.T) {
	p := opened(t, opener(t, nil))
	for ref, kind := range map[string]core.Kind{
		"UPPER": core.KindUsage, "oci:" + filepath.Join(t.TempDir(), "missing"): core.KindNotFound,
	} {
		spec := core.Spec{Name: core.NewName(), Image: ref}
		if _, err := p.Launch(t.Context(), spec, core.Lease{}, nil); !errors.Is(err, kind) {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if all, err := p.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("left: %+v, %v", all, err)
	}
	only := opened(t, opener(t, func(o *Options) { o.HostOnly = true }))
	if caps := only.Capabilities(); caps.Can(core.CapImages) || caps.Can(core.CapImageStore) {
		t.Errorf("%+v", caps)
	}
	spec := core.Spec{Name: core.NewName(), Image: "busybox"}
	if _, err := only.Launch(t.Context(), spec, core.Lease{}, nil); !errors.Is(err, core.KindUnsupported) {
		t.Errorf("an image where only the host's is offered: %v", err)
	}
}

// sb doctor finds a flipped byte in a stored image, and a launch a missing one. A pull repairs the image.
func TestDamagedImage(t *testing.T) {
	p := opened(t, opener(t, nil))
	ref := busyboxImage(t, nil)
	pulled, err := p.PullImage(t.Context(), ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	finding := func() (found core.Finding) {
		t.Helper()
		for _, f := range p.Diagnose(t.Context()) {
			if f.Name == "images" {
				found = f // the last one names the damage
			}
		}
		return found
	}
	if f := finding(); f.Status != "ok" || !strings.Contains(f.Detail, "1 sound") {
		t.Errorf("%+v", f)
	}
	files, err := filepath.Glob(filepath.Join(p.store.ImagesDir(), "images", "*", "rootfs.erofs"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	content[info.Size()/2] ^= 1
	if err := errors.Join(
		os.WriteFile(files[0], content, 0o600), os.Chtimes(files[0], time.Time{}, info.ModTime()),
	); err != nil {
		t.Fatal(err)
	}
	repair := "sb image pull --provider local " + ref
	if f := finding(); f.Status != "error" || !strings.Contains(f.Fix, repair) {
		t.Errorf("%+v", f)
	}
	if _, err := p.PullImage(t.Context(), ref, nil); err != nil {
		t.Fatal(err)
	}
	if f := finding(); f.Status != "ok" {
		t.Errorf("after the repair: %+v", f)
	}
	if err := os.Truncate(files[0], info.Size()-4096); err != nil {
		t.Fatal(err)
	}
	if list, err := p.Images(t.Context()); err != nil || len(list) != 1 || !strings.Contains(list[0].Note, repair) {
		t.Errorf("%+v, %v", list, err)
	}
	// By its reference, the launch would read the file again.
	spec := core.Spec{Name: core.NewName(), Image: pulled.ID, Network: core.Network{Mode: core.NetworkNone}}
	_, err = p.Launch(t.Context(), spec, core.Lease{}, nil)
	if err == nil || !strings.Contains(core.HintOf(err), repair) {
		t.Errorf("a launch from a truncated image: %v", err)
	}
}

// A pull above the budget removes the image that was used least recently, and none that something uses.
func TestBudgetOfImages(t *testing.T) {
	open := opener(t, func(o *Options) { o.MaxImages = 1 })
	p := opened(t, open)
	ref := func(color string) string {
		return busyboxImage(t, func(c *v1.Config) { c.Env = append(c.Env, "COLOR="+color) })
	}
	used := ref("red")
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image = used })
	free := ref("green")
	if _, err := p.PullImage(t.Context(), free, nil); err != nil {
		t.Fatal(err)
	}
	file := strings.TrimPrefix(ref("blue"), "docker-archive:")
	if _, err := p.ImportImage(t.Context(), file, "imported:1", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.PullImage(t.Context(), ref("white"), nil); err != nil {
		t.Fatal(err)
	}
	names := func() (all []string) {
		list, err := p.Images(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			all = append(all, i.Names...)
		}
		return all
	}
	if got := strings.Join(names(), " "); len(names()) != 3 || strings.Contains(got, free) ||
		!strings.Contains(got, used) || !strings.Contains(got, "imported:1") {
		t.Errorf("stored: %s", got)
	}
	details, err := p.InspectImage(t.Context(), used)
	if err != nil || len(details.UsedBy) != 1 || details.UsedBy[0] != "sandbox "+sb.Name || len(details.Layers) != 1 ||
		!slices.Contains(details.Env, "COLOR=red") {
		t.Errorf("%+v, %v", details, err)
	}
	unused, err := p.UnusedImages(t.Context())
	if err != nil || len(unused) != 2 {
		t.Errorf("%+v, %v", unused, err)
	}
	for _, i := range unused {
		if err := p.RemoveUnusedImage(t.Context(), i.ID); err != nil {
			t.Error(err)
		}
	}
	if err := p.RemoveUnusedImage(t.Context(), details.ID); !errors.Is(err, core.KindConflict) {
		t.Errorf("a used image: %v", err)
	}
	if got := names(); len(got) != 1 || got[0] != used {
		t.Errorf("left: %v", got)
	}
}
