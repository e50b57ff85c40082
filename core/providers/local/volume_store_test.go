//go:build linux

package local

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
)

// localProvider opens a provider over a new state directory.
func localProvider(t *testing.T) *Provider {
	t.Helper()
	p, ok := opener(t, nil)(t).(*Provider)
	if !ok {
		t.Fatal("not the provider of this package")
	}
	return p
}

func withData(readOnly bool) func(*core.Spec) {
	return func(spec *core.Spec) {
		spec.Volumes = []core.Volume{{Source: "data", Target: "/data", ReadOnly: readOnly}}
	}
}

// TestSharedVolume has two sandboxes that use one volume at the same time, as root and as another user. The volume
// outlives them, and a sandbox that uses it prevents its removal.
func TestSharedVolume(t *testing.T) {
	p := localProvider(t)
	one, two := volumeBox(t, p, withData(false)), volumeBox(t, p, withData(false))
	reader := volumeBox(t, p, withData(true))
	inside(t, p, one.ID, "1000", "umask 22; echo first > /data/file; chmod 640 /data/file; mkdir /data/dir")
	for _, other := range []core.Sandbox{two, reader} {
		if got := inside(t, p, other.ID, "", "stat -c %u:%g:%a /data/file; cat /data/file"); got != "1000:1000:640\nfirst\n" {
			t.Errorf("the other sandbox sees %q", got)
		}
	}
	// Each write is seen at once, also through files that are open or mapped.
	const follow = `exec 3</data/file; read a <&3; echo ready > /data/ready; while ! test -e /data/go; do sleep 0.01; done
read b <&3; echo "$a $b"; ls /data/dir; cat /data/moved`
	done := make(chan string)
	go func() { done <- inside(t, p, two.ID, "", follow) }()
	inside(t, p, one.ID, "", "while ! test -e /data/ready; do sleep 0.01; done; echo second >> /data/file; "+
		"echo x > /data/dir/new; mv /data/file /data/moved; touch /data/go")
	if got := <-done; got != "first second\nnew\nfirst\nsecond\n" {
		t.Errorf("the other sandbox reads %q", got)
	}
	if got := inside(t, p, reader.ID, "", "echo x > /data/x"); !strings.Contains(got, "Read-only") {
		t.Errorf("read-only: %q", got)
	}
	err := p.RemoveVolume(t.Context(), "data")
	if !errors.Is(err, core.KindConflict) || !strings.Contains(err.Error(), "has it mounted") {
		t.Errorf("removing a used volume: %v", err)
	}
	for _, sb := range []core.Sandbox{one, two, reader} {
		if err := p.Terminate(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
	}
	again := volumeBox(t, p, withData(false))
	if got := inside(t, p, again.ID, "", "cat /data/moved; rm -r /data/dir"); got != "first\nsecond\n" {
		t.Errorf("in a later sandbox: %q", got)
	}
	if err := p.Terminate(t.Context(), again.ID); err != nil {
		t.Fatal(err)
	}
	if err := p.RemoveVolume(t.Context(), "data"); err != nil {
		t.Error(err)
	}
}

// TestVolumeOutsideOfCopies stops, starts, copies and restores a sandbox with a volume. Each shares the volume, and no
// copy contains its files.
func TestVolumeOutsideOfCopies(t *testing.T) {
	p := localProvider(t)
	sb := volumeBox(t, p, func(spec *core.Spec) {
		withData(false)(spec)
		spec.Persist = true
	})
	ctx := t.Context()
	inside(t, p, sb.ID, "", "echo 1 > /data/file; echo kept > /root/file; (sleep 600 </data/file) >/dev/null 2>&1 &")
	if err := p.Stop(ctx, sb.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := p.RemoveVolume(ctx, "data"); !errors.Is(err, core.KindConflict) {
		t.Errorf("removing the volume of a stopped sandbox: %v", err)
	}
	if err := os.WriteFile(filepath.Join(p.store.VolumeDir("data"), store.VolumeData, "outside"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start(ctx, sb.ID); err != nil {
		t.Fatal(err)
	}
	if got := inside(t, p, sb.ID, "", "cat /data/file /root/file; ls /data"); got != "1\nkept\nfile\noutside\n" {
		t.Errorf("after a start: %q", got)
	}
	snapshot, err := p.Snapshot(ctx, sb.ID, core.SnapshotOptions{Name: "snap"})
	if err != nil {
		t.Fatal(err)
	}
	bare := volumeBox(t, p, func(spec *core.Spec) { spec.Snapshot = snapshot.ID })
	if got := inside(t, p, bare.ID, "", "cat /root/file; ls /data 2>/dev/null || true"); got != "kept\n" {
		t.Errorf("from a snapshot: %q", got)
	}
	if _, err := p.Checkpoint(ctx, sb.ID, "check"); err != nil {
		t.Fatal(err)
	}
	fork, err := p.Fork(ctx, sb.ID, core.ForkSpec{Name: core.NewName()}, core.Lease{Owner: core.CurrentOwner("test")})
	if err != nil {
		t.Fatal(err)
	}
	inside(t, p, fork.ID, "", "echo fork >> /data/file")
	restored := volumeBox(t, p, func(spec *core.Spec) {
		withData(false)(spec)
		spec.Checkpoint = "check"
	})
	inside(t, p, restored.ID, "", "echo restored >> /data/file")
	if got := inside(t, p, sb.ID, "", "cat /data/file"); got != "1\nfork\nrestored\n" {
		t.Errorf("in the first sandbox: %q", got)
	}
	if err := p.Terminate(ctx, fork.ID); err != nil {
		t.Error(err)
	}
}

// TestHostileVolume has files that a sandbox plants for other readers: links out of the volume, and directories that
// their owner cannot open. A link leads only to files of the sandbox that follows it.
func TestHostileVolume(t *testing.T) {
	p := localProvider(t)
	sb := volumeBox(t, p, withData(false))
	inside(t, p, sb.ID, "", "ln -s / /data/root; ln -s ../../../../../../etc/hostname /data/up; "+
		"mkdir -p /data/closed/in; touch /data/closed/in/file; chmod 0 /data/closed/in /data/closed; chmod 6777 /data")
	other := volumeBox(t, p, withData(false))
	const read = "cat /data/up; cat /data/root/etc/hostname; cat /data/closed/in/file && echo read"
	if got := inside(t, p, other.ID, "", read); got != other.Name+"\n"+other.Name+"\nread\n" {
		t.Errorf("the links lead to %q", got)
	}
	data := filepath.Join(p.store.VolumeDir("data"), store.VolumeData)
	info, err := os.Stat(data)
	if err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		t.Errorf("on the host, the volume is %v, %v", info, err)
	}
	for _, sb := range []core.Sandbox{sb, other} {
		if err := p.Terminate(t.Context(), sb.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.RemoveVolume(t.Context(), "data"); err != nil {
		t.Errorf("a volume with closed directories is not removed: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(p.store.VolumeDir("data"))); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestHiddenAttributes tries to change what the file server stores about files.
func TestHiddenAttributes(t *testing.T) {
	p := localProvider(t)
	sb := volumeBox(t, p, withData(false))
	const script = `
import os
os.chdir("/data")
open("file", "w").close()
os.chown("file", 7, 8)
os.setxattr("file", "user.mine", b"value")
print(os.listxattr("file"), os.getxattr("file", "user.mine"))
for name in ("user.sb.owner", "security.capability", "trusted.x"):
    try:
        os.setxattr("file", name, b"0:0:0")
        print("set", name)
    except OSError:
        pass
    try:
        print("got", os.getxattr("file", name))
    except OSError:
        pass
s = os.stat("file")
print(s.st_uid, s.st_gid)
`
	got := inside(t, p, sb.ID, "", "python3 - <<'EOF'\n"+script+"EOF")
	if got != "['user.mine'] b'value'\n7 8\n" {
		t.Errorf("inside: %q", got)
	}
	var value [64]byte
	n, err := unix.Lgetxattr(filepath.Join(p.store.VolumeDir("data"), store.VolumeData, "file"), "user.sb.owner", value[:])
	if err != nil || string(value[:n]) != "7:8:0" {
		t.Errorf("on the host: %q, %v", value[:max(n, 0)], err)
	}
}

// TestVolumeLeftovers breaks a removal off, as a killed process does.
func TestVolumeLeftovers(t *testing.T) {
	p := localProvider(t)
	if _, err := p.CreateVolume(t.Context(), "data", core.VolumeOptions{}); err != nil {
		t.Fatal(err)
	}
	gone, err := p.store.Volumes().Withdraw("data")
	if err != nil {
		t.Fatal(err)
	}
	if volumes, err := p.Volumes(t.Context()); err != nil || len(volumes) != 0 {
		t.Errorf("listed: %+v, %v", volumes, err)
	}
	left, err := p.Leftovers(t.Context())
	if err != nil || len(left) != 1 || left[0].Subject != gone {
		t.Fatalf("leftovers: %+v, %v", left, err)
	}
	if err := p.Sweep(t.Context(), left[0]); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(gone); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestVolumeOptions refuses the options that nothing here enforces.
func TestVolumeOptions(t *testing.T) {
	p := localProvider(t)
	for _, opts := range []core.VolumeOptions{{Size: core.GiB}, {Version: 2}} {
		if _, err := p.CreateVolume(t.Context(), "data", opts); !errors.Is(err, core.KindUnsupported) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	for _, name := range []string{"../x", "x/y", "", ".hidden", ".new-x", "A", "-x"} {
		if _, err := p.CreateVolume(t.Context(), name, core.VolumeOptions{}); !errors.Is(err, core.KindUsage) {
			t.Errorf("name %q: %v", name, err)
		}
		if err := p.RemoveVolume(t.Context(), name); !errors.Is(err, core.KindNotFound) {
			t.Errorf("removing %q: %v", name, err)
		}
	}
}

// TestDiagnoseVolumes damages volumes, and has an interrupted removal. A process that was killed in the middle of a
// change holds no lock.
func TestDiagnoseVolumes(t *testing.T) {
	p := localProvider(t)
	for _, name := range []string{"sound", "lost", "link", "record", "removed"} {
		if _, err := p.CreateVolume(t.Context(), name, core.VolumeOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	data := func(name string) string { return filepath.Join(p.store.VolumeDir(name), store.VolumeData) }
	findings := func() map[string]core.Finding {
		t.Helper()
		found := map[string]core.Finding{}
		for _, f := range p.Diagnose(t.Context()) {
			found[f.Name] = f
		}
		return found
	}
	if f := findings()["volumes"]; f.Status != statusOK || f.Detail != "5 sound" {
		t.Errorf("%+v", f)
	}
	record := filepath.Join(p.store.VolumeDir("record"), "volume.json")
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	copies, err := filepath.Glob(filepath.Join(p.store.VolumeDir("record"), "*volume.json*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range copies {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err = p.store.Volumes().Withdraw("removed")
	if err := errors.Join(
		err, os.Remove(data("lost")), os.Remove(data("link")), os.Symlink("/etc", data("link")),
	); err != nil {
		t.Fatal(err)
	}
	// A process takes the lock of all volumes, and is killed.
	lock := filepath.Join(filepath.Dir(filepath.Dir(p.store.VolumeDir("sound"))), "volumes.lock")
	holder := exec.CommandContext(t.Context(), "sh", "-c", `exec 9>"$0"; flock 9; echo held; exec sleep 600`, lock)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("held\n"))); err != nil {
		t.Error(err)
	}
	_ = holder.Process.Kill()
	_ = holder.Wait()
	found := findings()
	if f := found["volumes"]; f.Status != statusWarning || f.Detail != "1 sound, 1 leftovers" || f.Fix != "sb prune" {
		t.Errorf("%+v", f)
	}
	for _, name := range []string{"lost", "link", "record"} {
		if f := found["volume "+name]; f.Status != statusError || !strings.Contains(f.Fix, "sb volume rm "+name) {
			t.Errorf("%s: %+v", name, f)
		}
		if err := p.RemoveVolume(t.Context(), name); err != nil {
			t.Errorf("removing %s: %v", name, err)
		}
	}
	if f := findings()["volumes"]; f.Detail != "1 sound, 1 leftovers" {
		t.Errorf("after the removals: %+v", f)
	}
}
