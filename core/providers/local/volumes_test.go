//go:build linux

package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
)

// volumeBox launches a sandbox with volumes, and terminates it at the end of the test.
func volumeBox(t *testing.T, p core.Provider, change func(*core.Spec)) core.Sandbox {
	t.Helper()
	spec := core.Spec{Name: core.NewName(), Network: core.Network{Mode: core.NetworkNone}}
	change(&spec)
	sb, err := p.Launch(t.Context(), spec, core.Lease{Owner: core.CurrentOwner("test")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := p.Terminate(context.WithoutCancel(t.Context()), sb.ID)
		if err != nil && !errors.Is(err, core.KindNotFound) {
			t.Error(err)
		}
	})
	return sb
}

// inside runs a line of shell, and returns its output with the errors.
func inside(t *testing.T, p core.Provider, id, user, line string) string {
	t.Helper()
	var out strings.Builder
	process, err := p.Exec(t.Context(), id, core.ExecSpec{
		Command: []string{"sh", "-c", "exec 2>&1\n" + line}, User: user, Stdout: &out, // one pipe keeps the order
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	if _, err := process.Wait(providertest.Patient(t)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

type lockedBuilder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuilder) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// physicalDir makes a directory of the test, without links in its path.
func physicalDir(t *testing.T, parts ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(append([]string{dir}, parts...)...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestHostDirectories mounts a directory for reading and one for writing.
func TestHostDirectories(t *testing.T) {
	read, write := physicalDir(t), physicalDir(t)
	if err := os.WriteFile(filepath.Join(read, "given"), []byte("from outside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := opener(t, nil)(t)
	sb := volumeBox(t, p, func(spec *core.Spec) {
		spec.Volumes = []core.Volume{
			{Source: read, Target: "/data/read", ReadOnly: true}, {Source: write, Target: "/data/write"},
		}
	})
	got := inside(t, p, sb.ID, "", "cd /data; cat read/given; echo inside >write/file; mkdir write/d; "+
		"ln -s /etc write/link; echo x >read/given; rm -f read/given; test -e read/given && echo still")
	if !strings.Contains(got, "from outside\n") || strings.Count(got, "Read-only file system") != 2 ||
		!strings.HasSuffix(got, "still\n") {
		t.Errorf("inside: %q", got)
	}
	if text, err := os.ReadFile(filepath.Join(write, "file")); err != nil || string(text) != "inside\n" {
		t.Errorf("outside: %q, %v", text, err)
	}
	if link, err := os.Readlink(filepath.Join(write, "link")); err != nil || link != "/etc" {
		t.Errorf("the link: %q, %v", link, err)
	}
}

// TestRefusedVolumes has mounts that no sandbox gets. The launch leaves nothing.
func TestRefusedVolumes(t *testing.T) {
	var opts Options
	p, ok := opener(t, func(o *Options) { opts = *o })(t).(*Provider)
	if !ok {
		t.Fatal("not the provider of this package")
	}
	dir := physicalDir(t)
	if _, err := p.CreateVolume(t.Context(), "other", core.VolumeOptions{}); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(opts.StateDir, link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, refused := range []struct {
		volume core.Volume
		kind   core.Kind
	}{
		{core.Volume{Source: "/", Target: "/v"}, core.KindUnauthorized},
		{core.Volume{Source: opts.StateDir, Target: "/v"}, core.KindUnauthorized},
		{core.Volume{Source: filepath.Dir(opts.StateDir), Target: "/v"}, core.KindUnauthorized},
		{core.Volume{Source: p.store.VolumeDir("other"), Target: "/v"}, core.KindUnauthorized},
		{core.Volume{Source: link, Target: "/v"}, core.KindUnauthorized},
		{core.Volume{Source: dir + "/link/local", Target: "/v"}, core.KindUnauthorized},
		{core.Volume{Source: dir + "/../" + filepath.Base(dir) + "/link", Target: "/v"}, core.KindUnauthorized},
		{core.Volume{Source: file, Target: "/v"}, core.KindUsage},
		{core.Volume{Source: dir + "/absent", Target: "/v"}, core.KindUsage},
		{core.Volume{Source: "../x", Target: "/v"}, core.KindUsage},
		{core.Volume{Source: "a/../../x", Target: "/v"}, core.KindUsage},
		{core.Volume{Source: "x/y", Target: "/v"}, core.KindUsage},
		{core.Volume{Source: ".new-x", Target: "/v"}, core.KindUsage},
		{core.Volume{Source: dir, Target: "/proc/x"}, core.KindUsage},
		{core.Volume{Source: dir, Target: "/dev/.sb-guest-program"}, core.KindUsage},
		{core.Volume{Source: "data", Target: "/"}, core.KindUsage},
	} {
		sb, err := p.Launch(t.Context(), core.Spec{Name: "refused", Volumes: []core.Volume{refused.volume}},
			core.Lease{Owner: core.CurrentOwner("test")}, nil)
		if core.KindOf(err) != refused.kind || err == nil {
			t.Errorf("%+v: %v is not of kind %v", refused.volume, err, refused.kind)
			_ = p.Terminate(t.Context(), sb.ID)
		}
		if err != nil && !strings.Contains(err.Error(), refused.volume.Source) &&
			!strings.Contains(err.Error(), refused.volume.Target) {
			t.Errorf("%+v: the error %q does not name it", refused.volume, err)
		}
	}
	if boxes, err := p.List(t.Context()); err != nil || len(boxes) != 0 {
		t.Errorf("left: %+v, %v", boxes, err)
	}
	if volumes, err := p.Volumes(t.Context()); err != nil || len(volumes) != 1 {
		t.Errorf("volumes: %+v, %v", volumes, err)
	}
}

// TestSwappedDirectory replaces a host directory after the check: by a link, and by another directory. The directory of
// "copied" is copied on write.
func TestSwappedDirectory(t *testing.T) {
	secret := physicalDir(t)
	for name, swap := range map[string]func(dir string) error{
		"link":      func(dir string) error { return os.Symlink(secret, dir) },
		"directory": func(dir string) error { return os.Mkdir(dir, 0o755) },
		"above":     func(dir string) error { return os.Symlink(secret, filepath.Dir(dir)) },
		"copied":    func(dir string) error { return os.Symlink(secret, dir) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := physicalDir(t, "above", "shared")
			if err := os.Mkdir(filepath.Join(secret, "shared"), 0o755); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
			p, ok := opener(t, nil)(t).(*Provider)
			if !ok {
				t.Fatal("not the provider of this package")
			}
			p.checked = func() {
				moved := dir
				if name == "above" {
					moved = filepath.Dir(dir)
				}
				if err := os.Rename(moved, moved+"-moved"); err != nil {
					t.Error(err)
				}
				if err := swap(dir); err != nil {
					t.Error(err)
				}
			}
			volume := core.Volume{Source: dir, Target: "/v", CopyOnWrite: strings.HasSuffix(t.Name(), "copied")}
			sb, err := p.Launch(t.Context(), core.Spec{Name: "swapped", Volumes: []core.Volume{volume}},
				core.Lease{Owner: core.CurrentOwner("test")}, nil)
			if !errors.Is(err, core.KindUnauthorized) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%v", err)
			}
			if err == nil {
				_ = p.Terminate(t.Context(), sb.ID)
			}
		})
	}
}

// TestOwnersInDirectory has a sandbox whose commands run as different users. On the host, each file belongs to the
// launching user and has no setuid bit. A sandbox with the same default user sees the owners of before.
func TestOwnersInDirectory(t *testing.T) {
	dir := physicalDir(t)
	if err := os.WriteFile(filepath.Join(dir, "given"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p := opener(t, nil)(t)
	mount := func(spec *core.Spec) {
		spec.User, spec.Volumes = "user", []core.Volume{{Source: dir, Target: "/srv/app"}}
	}
	sb := volumeBox(t, p, mount)
	if got := inside(t, p, sb.ID, "", "cd /srv/app; stat -c %u:%g . given; echo x > mine; mkdir sub; touch sub/mine; "+
		"chmod 600 mine; mv mine sub; ln sub/mine hard; stat -c %u:%g:%a sub/mine hard"); got !=
		"1000:1000\n1000:1000\n1000:1000:644\n1000:1000:600\n" && got !=
		"1000:1000\n1000:1000\n1000:1000:600\n1000:1000:600\n" {
		t.Errorf("the default user: %q", got)
	}
	const root = `cd /srv/app; touch roots; cp /bin/true tool; chown 33:33 tool; chmod 6755 tool; mkfifo pipe
stat -c %n:%u:%g:%a roots tool`
	if got := inside(t, p, sb.ID, "root", root); got != "roots:0:0:644\ntool:33:33:6755\n" {
		t.Errorf("root: %q", got)
	}
	const other = "echo x >> /srv/app/tool; stat -c %a /srv/app/tool; rm /srv/app/roots"
	if got := inside(t, p, sb.ID, "33:33", other); !strings.Contains(got, "755\n") ||
		!strings.Contains(got, "Permission denied") {
		t.Errorf("another user: %q", got)
	}
	if got := inside(t, p, sb.ID, "root", "cd /srv/app; chmod 6755 tool; mknod null c 1 3; ls -d null"); !strings.Contains(
		got, "not permitted",
	) {
		t.Errorf("a device: %q", got)
	}
	again := volumeBox(t, p, mount)
	if got := inside(t, p, again.ID, "", "cd /srv/app; stat -c %n:%u:%g:%a given roots tool"); got !=
		"given:1000:1000:644\nroots:0:0:644\ntool:33:33:6755\n" {
		t.Errorf("in another sandbox: %q", got)
	}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		attr, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(attr.Uid) != os.Getuid() || int(attr.Gid) != os.Getgid() ||
			info.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeDevice|os.ModeNamedPipe) != 0 {
			t.Errorf("on the host: %s is %+v", path, attr)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
