//go:build linux

package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/seed-0724f904/sb/core"
)

// changeFiles makes one change of each kind that a layer has.
const changeFiles = `cd /root
echo new > file; chown 1000:2000 file; chmod 4750 file; ln file hard; ln -s /nowhere soft; mkfifo fifo
mkdir dir; chmod 1777 dir; echo x > "dir/$(printf 'new\nline\377')"
truncate -s 8M sparse; echo end >> sparse
rm /etc/group; rm -r /usr; mkdir -p /usr/new`

// checkFiles prints what changeFiles made.
const checkFiles = `cd /root
cat file hard; stat -c '%a %u %g %h %n' file hard; readlink soft; stat -c '%F' fifo; stat -c '%a' dir; cat "dir/$(printf 'new\nline\377')"
stat -c %s sparse; tail -c 4 sparse; ls /usr /etc/group 2>&1; touch /root/more && rm /root/more`

const checkedFiles = "new\nnew\n4750 1000 2000 2 file\n4750 1000 2000 2 hard\n/nowhere\nfifo\n1777\nx\n" +
	"8388612\nend\nls: /etc/group: No such file or directory\n/usr:\nnew\n"

// A snapshot of a sandbox from an image can be used like an image: as a root, in a build, and in an archive.
func TestSnapshotIsAnImage(t *testing.T) {
	p := opened(t, opener(t, nil))
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image = busyboxImage(t, nil) })
	if out := output(t, p, sb.ID, changeFiles); out != "" {
		t.Fatal(out)
	}
	made, err := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "snap"})
	if err != nil || !strings.Contains(made.Hint, "--image snap") {
		t.Fatalf("%+v, %v", made, err)
	}
	list, err := p.Images(t.Context())
	at := slices.IndexFunc(list, func(i core.ImageInfo) bool { return slices.Equal(i.Names, []string{"snap"}) })
	if err != nil || len(list) != 2 || at < 0 || list[at].Size <= list[1-at].Size {
		t.Fatalf("%+v, %v", list, err)
	}
	id := list[at].ID
	for _, ref := range []string{"snap", "snap:latest", "docker.io/library/snap", id, id[:20], id[7:19]} {
		details, err := p.InspectImage(t.Context(), ref)
		if err != nil || details.ID != id || details.Names[0] != "snap" || !slices.Contains(details.Env, "FROM_IMAGE=yes") {
			t.Errorf("%s: %+v, %v", ref, details, err)
		}
	}
	same := func(what, ref string) {
		t.Helper()
		from := launchFrom(t, p, func(spec *core.Spec) { spec.Image = ref })
		if out := output(t, p, from.ID, checkFiles); out != checkedFiles {
			t.Errorf("%s has %q, want %q", what, out, checkedFiles)
		}
		if out := output(t, p, from.ID, "echo $FROM_IMAGE"); out != "yes\n" {
			t.Errorf("%s has the variable %q", what, out)
		}
	}
	same("a sandbox by the name", "snap")
	same("a sandbox by the id", id)
	for _, format := range []core.ImageFormat{core.ImageOCI, core.ImageDocker} {
		same("a sandbox from the archive "+string(format), exported(t, p, "snap", format))
	}
	if err := p.TagImage(t.Context(), "snap", "team/app:1"); err != nil {
		t.Fatal(err)
	}
	same("a sandbox from the tagged image", "team/app:1")
	dir := t.TempDir()
	write(t, dir, map[string]string{"Dockerfile": "FROM snap\nRUN echo built > /root/built && cat /root/built\n"})
	if _, err := p.BuildImage(t.Context(), core.ImageBuild{
		Dir: dir, File: filepath.Join(dir, "Dockerfile"), Name: "built:1",
	}, nil); err != nil {
		t.Fatal(err)
	}
	same("a sandbox from the built image", "built:1")
	if list, err := p.Images(t.Context()); err != nil || len(list) != 4 {
		t.Errorf("with the names of the snapshot in one place: %+v, %v", list, err)
	}
	if unused, err := p.UnusedImages(t.Context()); err != nil || slices.ContainsFunc(unused, func(i core.ImageInfo) bool {
		return slices.Contains(i.Names, "snap")
	}) {
		t.Errorf("prune would remove the snapshot: %+v, %v", unused, err)
	}
	if err := p.RemoveImage(t.Context(), "snap"); err != nil {
		t.Fatal(err)
	}
	if left, err := p.Snapshots(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("%+v, %v", left, err)
	}
	same("a sandbox from the tagged image without the snapshot", "team/app:1")
	if all, err := p.List(t.Context()); err != nil || slices.ContainsFunc(all, func(sb core.Sandbox) bool {
		return strings.HasPrefix(sb.Name, buildPrefix)
	}) {
		t.Errorf("sandboxes that read snapshots are left: %+v, %v", all, err)
	}
}

// exported writes an image to an archive twice, and returns a reference to it. It has two layers.
func exported(t *testing.T, p *Provider, ref string, format core.ImageFormat) string {
	t.Helper()
	var first, again bytes.Buffer
	for _, to := range []io.Writer{&first, &again} {
		if err := p.ExportImage(t.Context(), ref, format, to, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), again.Bytes()) {
		t.Errorf("%s: two exports differ", format)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, first.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if layers, err := image.Layers(); err != nil || len(layers) != 2 {
		t.Errorf("%s: %d layers, %v", format, len(layers), err)
	}
	return "docker-archive:" + file
}

// A snapshot over this machine's programs is refused where an image is needed, with what to do.
func TestHostSnapshotIsNoImage(t *testing.T) {
	p := opened(t, opener(t, nil))
	sb := launchFrom(t, p, func(*core.Spec) {})
	if _, err := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "plain"}); err != nil {
		t.Fatal(err)
	}
	launch := func(ctx context.Context) error {
		_, err := p.Launch(ctx, core.Spec{Name: core.NewName(), Image: "plain"}, core.Lease{}, nil)
		return err
	}
	for what, err := range map[string]error{
		"launch": launch(t.Context()), "inspect": second(p.InspectImage(t.Context(), "plain")),
		"tag":    p.TagImage(t.Context(), "plain", "other"),
		"export": p.ExportImage(t.Context(), "plain", core.ImageOCI, io.Discard, nil),
	} {
		if !errors.Is(err, core.KindUnsupported) || !strings.Contains(err.Error(), "--image host") ||
			!strings.Contains(core.HintOf(err), "sb launch --snapshot plain") {
			t.Errorf("%s: %v (%s)", what, err, core.HintOf(err))
		}
	}
	if list, err := p.Images(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	file := strings.TrimPrefix(busyboxImage(t, nil), "docker-archive:")
	if _, err := p.ImportImage(t.Context(), file, "plain", nil); err != nil {
		t.Errorf("an image of the name: %v", err)
	}
	from := launchFrom(t, p, func(spec *core.Spec) { spec.Image = "plain" })
	if out := output(t, p, from.ID, "ls /usr/bin"); out != "yes\n" {
		t.Errorf("the image of the name has %q", out)
	}
}

func second[T any](_ T, err error) error { return err }

// Snapshots over images and images share their names.
func TestNamesOfSnapshotsAndImages(t *testing.T) {
	p := opened(t, opener(t, nil))
	ref := busyboxImage(t, nil)
	file := strings.TrimPrefix(ref, "docker-archive:")
	if _, err := p.ImportImage(t.Context(), file, "taken", nil); err != nil {
		t.Fatal(err)
	}
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image = ref })
	snapshot := func(name string) error {
		return second(p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: name, Replace: true}))
	}
	if err := snapshot("snap"); err != nil {
		t.Fatal(err)
	}
	build := core.ImageBuild{Name: "snap:latest"}
	for what, err := range map[string]error{
		"a snapshot with an image's name": snapshot("taken"),
		"an import":                       second(p.ImportImage(t.Context(), file, "snap", nil)),
		"a tag":                           p.TagImage(t.Context(), "taken", "snap"),
		"a build":                         second(p.BuildImage(t.Context(), build, nil)),
		"a pull":                          second(p.PullImage(t.Context(), "snap", nil)),
	} {
		if !errors.Is(err, core.KindConflict) || !strings.Contains(core.HintOf(err), "choose another name") {
			t.Errorf("%s: %v (%s)", what, err, core.HintOf(err))
		}
	}
	if err := p.TagImage(t.Context(), "taken", "snap:2"); err != nil {
		t.Error(err)
	}
}

// A file that is larger than a layer can be is refused before it is written.
func TestSnapshotWithAHugeFile(t *testing.T) {
	p := opened(t, opener(t, nil))
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image = busyboxImage(t, nil) })
	if out := output(t, p, sb.ID, "truncate -s 1024G /root/huge; echo small > /root/small"); out != "" {
		t.Fatal(out)
	}
	if _, err := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "snap"}); err != nil {
		t.Fatal(err)
	}
	err := p.ExportImage(t.Context(), "snap", core.ImageOCI, io.Discard, nil)
	if !errors.Is(err, core.KindExhausted) || !strings.Contains(err.Error(), "/root/huge") {
		t.Errorf("%v", err)
	}
	from := launchFrom(t, p, func(spec *core.Spec) { spec.Image = "snap" })
	if out := output(t, p, from.ID, "stat -c %s /root/huge"); out != "1099511627776\n" {
		t.Errorf("a launch reads no file: %q", out)
	}
}

// A file that an image cannot have is refused, and a lost base image is named.
func TestSnapshotWithoutAnImage(t *testing.T) {
	p := opened(t, opener(t, nil))
	sb := launchFrom(t, p, func(spec *core.Spec) { spec.Image = busyboxImage(t, nil) })
	if out := output(t, p, sb.ID, "touch /root/.wh.passwd"); out != "" {
		t.Fatal(out)
	}
	if _, err := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "snap"}); err != nil {
		t.Fatal(err)
	}
	err := p.ExportImage(t.Context(), "snap", core.ImageOCI, io.Discard, nil)
	if !errors.Is(err, core.KindUsage) || !strings.Contains(err.Error(), "/root/.wh.passwd") {
		t.Errorf("a name of a whiteout: %v", err)
	}
	from := launchFrom(t, p, func(spec *core.Spec) { spec.Image = "snap" })
	if out := output(t, p, from.ID, "ls -A /root"); out != ".wh.passwd\n" {
		t.Errorf("a launch does without the layer: %q", out)
	}
	if err := os.RemoveAll(p.store.ImagesDir()); err != nil {
		t.Fatal(err)
	}
	err = p.ExportImage(t.Context(), "snap", core.ImageOCI, io.Discard, nil)
	if !errors.Is(err, core.KindConflict) || !strings.Contains(err.Error(), "no longer stored") {
		t.Errorf("without its base: %v", err)
	}
	list, err := p.Images(t.Context())
	if err != nil || len(list) != 1 || !strings.Contains(list[0].Note, "no longer stored") {
		t.Errorf("%+v, %v", list, err)
	}
	if left, err := p.store.Snapshots().Abandoned(); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
