//go:build linux

package local

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// diskVariable names a directory on a new file system, in the process that onDisk starts.
const diskVariable = "SB_TEST_DISK"

// onDisk runs the rest of a test in a process with a new file system of a type, with the options of mount(8).
func onDisk(t *testing.T, kind, options string, rest func(t *testing.T, dir string)) {
	t.Helper()
	if dir := os.Getenv(diskVariable); dir != "" {
		rest(t, dir)
		return
	}
	dir := t.TempDir()
	runAgain(t, diskVariable+"="+dir, "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
		`mount -t "$1" -o "$2" none "$0" && shift 2 && exec "$@"`, dir, kind, options)
}

// TestDiskFillsUp pulls, builds and writes to a volume on a disk that is too small for it. Each reports the reason,
// leaves nothing half done, and frees what it wrote.
func TestDiskFillsUp(t *testing.T) {
	onDisk(t, "tmpfs", "size=16m", func(t *testing.T, dir string) {
		t.Helper()
		p := opened(t, opener(t, func(o *Options) { o.StateDir = dir }))
		base := busyboxImage(t, nil)
		if _, err := p.PullImage(t.Context(), base, nil); err != nil {
			t.Fatal(err)
		}
		free := func() uint64 {
			t.Helper()
			var stat unix.Statfs_t
			if err := unix.Statfs(dir, &stat); err != nil {
				t.Fatal(err)
			}
			return stat.Bfree * uint64(stat.Bsize)
		}
		before := free()
		freed := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, core.KindExhausted) || core.HintOf(err) == "" ||
				!strings.Contains(err.Error(), unix.ENOSPC.Error()) {
				t.Errorf("%s: %v (%s)", what, err, core.HintOf(err))
			}
			const records = 1 << 20 // of finished steps, and directories
			if now := free(); now+records < before {
				t.Errorf("%s: %d bytes are free, and %d were before", what, now, before)
			}
			left, err := p.Leftovers(t.Context())
			if err != nil || len(left) > 0 {
				t.Errorf("%s left %+v, %v", what, left, err)
			}
			for _, f := range append(p.imageFindings(t.Context()), p.volumeFindings(t.Context())...) {
				if f.Status != statusOK {
					t.Errorf("%s: %+v", what, f)
				}
			}
			images, err := p.Images(t.Context())
			if err != nil || len(images) != 1 {
				t.Errorf("%s: the images are %+v, %v", what, images, err)
			}
		}
		large := t.TempDir()
		noise, err := exec.CommandContext(t.Context(), "head", "-c", "20000000", "/dev/urandom").Output()
		if err != nil {
			t.Fatal(err)
		}
		write(t, large, map[string]string{
			"step/Dockerfile": "FROM " + base + "\nRUN head -c 20000000 /dev/urandom > /noise\n",
			"copy/Dockerfile": "FROM " + base + "\nCOPY noise /\n", "copy/noise": string(noise),
		})
		_, err = p.PullImage(t.Context(), largeImage(t, noise), nil)
		freed("a pull", err)
		for _, step := range []string{"step", "copy"} {
			b := core.ImageBuild{
				Dir: filepath.Join(large, step), File: filepath.Join(large, step, "Dockerfile"), Name: "built:" + step,
			}
			offline(&b.Spec)
			_, err = p.BuildImage(t.Context(), b, nil)
			freed("a build of a "+step, err)
		}
		sb := launched(t, p, withData(false))
		const fill = "exec 2>&1; head -c 20000000 /dev/urandom > /data/noise; echo $?; rm /data/noise; " +
			"echo on > /data/on; cat /data/on"
		out := output(t, p, sb.ID, fill)
		if !strings.Contains(out, "1\non\n") {
			t.Errorf("a full volume: %q", out)
		}
		if err := p.Terminate(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		if err := p.RemoveVolume(t.Context(), "data"); err != nil {
			t.Fatal(err)
		}
		again := launched(t, p, func(spec *core.Spec) { spec.Image = base })
		if out := output(t, p, again.ID, "ls /usr/bin"); out != "yes\n" {
			t.Errorf("after all: %q", out)
		}
	})
}

// largeImage returns a reference to an image with a layer of one file.
func largeImage(t *testing.T, content []byte) string {
	t.Helper()
	file := strings.TrimPrefix(busyboxImage(t, nil), "docker-archive:")
	base, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := crane.Layer(map[string][]byte{"noise": content})
	if err != nil {
		t.Fatal(err)
	}
	large, err := mutate.AppendLayers(base, layer)
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(file+".large", name.MustParseReference("busybox:large"), large); err != nil {
		t.Fatal(err)
	}
	return "docker-archive:" + file + ".large"
}

// TestStoreWithoutAttributes keeps its state on a file system without extended attributes, reflinks and holes. The
// writable layer is in the cache directory, where gVisor needs holes.
func TestStoreWithoutAttributes(t *testing.T) {
	onDisk(t, "ramfs", "mode=700", func(t *testing.T, dir string) {
		t.Helper()
		if err := unix.Setxattr(dir, "user.sb", []byte("x"), 0); !errors.Is(err, unix.ENOTSUP) {
			t.Fatalf("the file system has extended attributes: %v", err)
		}
		p := opened(t, opener(t, func(o *Options) { o.StateDir = dir }))
		built, _ := builtFrom(t, p, t.TempDir(), "FROM "+busyboxImage(t, nil)+"\nRUN echo built > /file\n", nil)
		sb := launchFrom(t, p, func(spec *core.Spec) {
			spec.Image, spec.Persist = built.ID, true
			withData(false)(spec)
		})
		out := output(t, p, sb.ID, "cat /file; echo kept > /data/file; echo saved > /root/file; cat /data/file")
		if out != "built\nkept\n" {
			t.Errorf("inside: %q", out)
		}
		if err := p.Stop(t.Context(), sb.ID, time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Start(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		if out := output(t, p, sb.ID, "cat /data/file /root/file"); out != "kept\nsaved\n" {
			t.Errorf("after a start: %q", out)
		}
		out = output(t, p, sb.ID, "chown 7:8 /data/file && echo done; stat -c %u:%g /data/file; touch /data/new && echo new")
		if out != "done\n0:0\nnew\n" { // docs/volumes.md
			t.Errorf("owners: %q", out)
		}
		for _, f := range append(p.imageFindings(t.Context()), p.volumeFindings(t.Context())...) {
			if f.Status != statusOK {
				t.Errorf("%+v", f)
			}
		}
	})
}

// TestOwnFileSystem runs a sandbox whose directories are on another file system than "/", as homes often are.
func TestOwnFileSystem(t *testing.T) {
	onDisk(t, "tmpfs", "size=256m", func(t *testing.T, dir string) {
		t.Helper()
		p := opened(t, opener(t, func(o *Options) {
			o.StateDir, o.CacheDir = filepath.Join(dir, "state"), filepath.Join(dir, "cache")
		}))
		sb := launched(t, p, func(spec *core.Spec) { spec.Persist = true })
		output(t, p, sb.ID, "head -c 4194304 /dev/urandom >/root/file")
		stats, err := p.Stats(t.Context(), sb.ID)
		if err != nil || stats.Disk < 4*core.MiB {
			t.Errorf("the files use %v, %v", stats.Disk, err)
		}
		if err := p.Stop(t.Context(), sb.ID, time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Start(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		if size := strings.TrimSpace(output(t, p, sb.ID, "stat -c %s /root/file")); size != "4194304" {
			t.Errorf("after a stop the file has %q bytes", size)
		}
	})
}

// TestLinkedDirectories runs sandboxes whose directories are reached through links, as homes are on some systems.
func TestLinkedDirectories(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o755), os.Symlink("real", link)); err != nil {
		t.Fatal(err)
	}
	p := opened(t, opener(t, func(o *Options) {
		o.StateDir, o.CacheDir = filepath.Join(link, "state"), filepath.Join(link, "cache")
	}))
	for _, image := range []string{HostImage, busyboxImage(t, nil)} {
		sb := launched(t, p, func(spec *core.Spec) { spec.Image, spec.Persist = image, true })
		output(t, p, sb.ID, "echo kept >/root/file")
		fork := forkOf(t, p, sb.ID)
		if err := p.Stop(t.Context(), sb.ID, time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Start(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{sb.ID, fork.ID} {
			if got := output(t, p, id, "cat /root/file"); got != "kept\n" {
				t.Errorf("%s has %q", id, got)
			}
		}
	}
}

// TestCacheWithoutExecution refuses a cache directory in which no program can run.
func TestCacheWithoutExecution(t *testing.T) {
	onDisk(t, "tmpfs", "size=64m,noexec", func(t *testing.T, dir string) {
		t.Helper()
		p := opened(t, opener(t, func(o *Options) { o.CacheDir = filepath.Join(dir, "cache") }))
		_, err := p.Launch(
			t.Context(), core.Spec{Name: core.NewName(), Image: HostImage}, core.Lease{Owner: core.CurrentOwner("test")}, nil,
		)
		if !errors.Is(err, core.KindUnavailable) || !strings.Contains(err.Error(), "noexec") || core.HintOf(err) == "" {
			t.Errorf("a launch returned %v", err)
		}
		if err := p.Check(t.Context()); !errors.Is(err, core.KindUnavailable) {
			t.Errorf("the check returned %v", err)
		}
	})
}
