//go:build linux

package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/local/cgroup"
	"github.com/seed-0724f904/sb/core/providertest"
)

// sparing returns a provider with spares, all of which end with the test.
func sparing(t *testing.T, spares int, age time.Duration) *Provider {
	t.Helper()
	p, ok := opener(t, func(o *Options) { o.Spares, o.SpareAge = spares, age })(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil { // no spare is made after it
			t.Error(err)
		}
		left, err := p.store.Spares()
		for _, spare := range left {
			_, withdrawn := p.store.WithdrawSpare(spare.ID)
			err = errors.Join(err, withdrawn, p.discard(context.WithoutCancel(t.Context()), spare.ID, ""))
		}
		if err != nil {
			t.Error(err)
		}
		wantNothing(t, p)
	})
	return p
}

// wantNothing checks that the provider's state directory has no sandbox and no spare.
func wantNothing(t *testing.T, p *Provider) {
	t.Helper()
	within(t, "no sandbox is left", func() bool {
		ids, err := p.store.IDs()
		return err == nil && len(ids) == 0
	})
	if left, err := p.Leftovers(context.WithoutCancel(t.Context())); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// readySpare waits until a spare can be claimed, and returns its id.
func readySpare(t *testing.T, p *Provider) (id string) {
	t.Helper()
	within(t, "a spare is ready", func() bool {
		spares, err := p.store.Spares()
		if err != nil {
			t.Fatal(err)
		}
		for _, spare := range spares {
			if spare.Ready {
				id = spare.ID
			}
		}
		return id != ""
	})
	return id
}

// insideState prints everything in a sandbox that a launch determines, and nothing that depends on the time.
const insideState = `exec 2>&1
hostname; cat /etc/hostname /etc/hosts /etc/resolv.conf /etc/passwd; env | sort; id; pwd; umask; mount; ulimit -a
cat /proc/self/limits /proc/self/status | grep -E 'Max|Cap|Groups|Seccomp|NoNewPrivs'
grep -E 'MemTotal|SwapTotal' /proc/meminfo; nproc; df -k / | tail -1
ls -la / /root /tmp /home /etc/hostname /dev | sed -E 's/[A-Z][a-z]+ +[0-9]+ +[0-9:]+ / /'
for p in /proc/[0-9]*; do tr '\0' ' ' < $p/cmdline; echo; done | sort | head -1
wc -c < /proc/sys/kernel/random/boot_id; cat /proc/net/dev | cut -d: -f1; cat /proc/net/route`

// A sandbox from a spare has the id of the spare, and is the same inside as one without.
func TestSpareBecomesSandbox(t *testing.T) {
	change := func(spec *core.Spec) {
		spec.Name, spec.Env = "same", map[string]string{"COLOR": "red"}
		spec.Secrets = []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("hush")}}
		spec.Workdir, spec.User, spec.Labels = "/srv/here", "daemon", map[string]string{"team": "a"}
		spec.Network = core.Network{Mode: core.NetworkAll}
		spec.Ports = []core.Port{{Sandbox: 8080}}
		spec.Memory, spec.Processes, spec.OpenFiles, spec.Disk = core.GiB, 64, 128, core.GiB
	}
	plain, _ := crashed(t, nil)
	cold := launched(t, plain, change)
	want := output(t, plain, cold.ID, insideState)

	p := sparing(t, 1, time.Minute)
	first := launched(t, p, func(spec *core.Spec) { change(spec); spec.Name, spec.Env = "first", nil })
	id := readySpare(t, p)
	if all, err := p.List(t.Context()); err != nil || len(all) != 1 || all[0].ID != first.ID {
		t.Errorf("listed with a spare: %v, %v", all, err)
	}
	if _, err := p.Get(t.Context(), id); !errors.Is(err, core.KindNotFound) {
		t.Errorf("a spare is found by its id: %v", err)
	}
	warm := launched(t, p, change)
	if warm.ID != id {
		t.Fatalf("the launch made %s, the spare was %s", warm.ID, id)
	}
	if got := output(t, p, warm.ID, insideState); got != want {
		t.Errorf("inside the sandbox of a spare:\n%s\nwithout a spare:\n%s", got, want)
	}
	if warm.Name != "same" || warm.Labels["team"] != "a" || len(warm.Ports) != 1 || warm.State != core.StateRunning {
		t.Errorf("the sandbox is %+v", warm)
	}
	secrets, err := p.GivenSecrets(t.Context(), warm.ID)
	if err != nil || len(secrets) != 1 || secrets[0].Value.Reveal() != "hush" {
		t.Errorf("its secrets: %v, %v", secrets, err)
	}
	if another := readySpare(t, p); another == id {
		t.Errorf("the spare %s was offered again", id)
	}
}

// The network policy of the claim holds, also if it is stricter than that of the launch before.
func TestSpareNetwork(t *testing.T) {
	p := sparing(t, 1, time.Minute)
	launched(t, p, func(spec *core.Spec) { spec.Network.Mode = core.NetworkAll })
	id := readySpare(t, p)
	sb := launched(t, p, func(spec *core.Spec) { spec.Network.Mode = core.NetworkNone })
	if sb.ID != id {
		t.Fatalf("the launch made %s, the spare was %s", sb.ID, id)
	}
	output(t, p, sb.ID, "bash -c 'echo > /dev/tcp/1.1.1.1/80'")
	denials, err := p.Denials(t.Context(), sb.ID)
	if err != nil || len(denials) != 1 {
		t.Errorf("refused connections: %v, %v", denials, err)
	}
}

// Launches that need another sandbox do not claim a spare.
func TestSpareShape(t *testing.T) {
	p := sparing(t, 1, time.Minute)
	launched(t, p, nil)
	id := readySpare(t, p)
	for name, change := range map[string]func(*core.Spec){
		"memory":    func(spec *core.Spec) { spec.Memory = 512 * core.MiB },
		"cpu":       func(spec *core.Spec) { spec.CPU = 1 },
		"processes": func(spec *core.Spec) { spec.Processes = 100 },
		"persist":   func(spec *core.Spec) { spec.Persist = true },
		"volume":    func(spec *core.Spec) { spec.Volumes = []core.Volume{{Source: t.TempDir(), Target: "/here"}} },
	} {
		if sb := launched(t, p, change); sb.ID == id {
			t.Errorf("a launch with another %s claimed the spare", name)
		}
	}
	if sb := launched(t, p, nil); sb.ID != id {
		t.Errorf("the spare %s was not claimed", id)
	}
}

// Of concurrent launches at most one claims a spare, and all succeed.
func TestSpareIsClaimedOnce(t *testing.T) {
	p := sparing(t, 1, time.Minute)
	launched(t, p, nil)
	spare := readySpare(t, p)
	ids := make([]string, 4)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			spec := core.Spec{Name: core.NewName(), Image: HostImage, Network: core.Network{Mode: core.NetworkNone}}
			sb, err := p.Launch(t.Context(), spec, core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}, nil)
			if err != nil {
				t.Error(err)
			}
			ids[i] = sb.ID
		})
	}
	all.Wait()
	claimed := 0
	for _, id := range ids {
		if id == spare {
			claimed++
		}
		if err := p.Terminate(t.Context(), id); err != nil {
			t.Errorf("terminating %q: %v", id, err)
		}
	}
	if claimed != 1 {
		t.Errorf("%d launches got the spare %s: %v", claimed, spare, ids)
	}
}

// An unused spare ends at its age, and nothing of it is left: no directory, and no control group.
func TestSpareAge(t *testing.T) {
	p := sparing(t, 1, 200*time.Millisecond)
	sb := launched(t, p, func(spec *core.Spec) { spec.Memory = 256 * core.MiB })
	within(t, "the spare is there", func() bool {
		ids, err := p.store.IDs()
		return err == nil && len(ids) == 2
	})
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	wantNothing(t, p)
	if dirs := cgroup.Empty(p.store.GroupName(""), 0); len(dirs) > 0 {
		t.Errorf("left: %q", dirs)
	}
}

// A killed spare costs a launch nothing but time. Prune removes its directory.
func TestKilledSpare(t *testing.T) {
	p := sparing(t, 1, time.Minute)
	launched(t, p, nil)
	id := readySpare(t, p)
	process, err := p.store.ReadProcess(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(process.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, "its lock is free", func() bool { return !p.store.Locked(id) })
	left, err := p.Leftovers(t.Context())
	if err != nil || len(left) != 1 || left[0].Subject != p.store.Dir(id) {
		t.Fatalf("leftovers: %v, %v", left, err)
	}
	if err := p.Sweep(t.Context(), left[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(p.store.Dir(id)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of the spare is still there: %v", err)
	}
	if sb := launched(t, p, nil); sb.ID == id {
		t.Error("the killed spare was claimed")
	}
	readySpare(t, p)
}

// atStoppedClaim stops the supervisor of a spare, so that it accepts a claim and does not answer. When a launch has
// claimed the spare, then is called with the supervisor's process number.
func atStoppedClaim(t *testing.T, p *Provider, id string, then func(pid int)) {
	t.Helper()
	process, err := p.store.ReadProcess(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(process.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var waiting sync.WaitGroup
	t.Cleanup(waiting.Wait)
	waiting.Go(func() {
		within(t, "the spare is claimed", func() bool {
			_, err := p.store.ReadLease(id)
			return err == nil
		})
		then(process.PID)
	})
}

// A spare that dies between its claim and its start is replaced by a new sandbox.
func TestSpareDiesAtItsClaim(t *testing.T) {
	p := sparing(t, 1, time.Minute)
	launched(t, p, nil)
	id := readySpare(t, p)
	atStoppedClaim(t, p, id, func(pid int) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	sb := launched(t, p, nil)
	if sb.ID == id || strings.TrimSpace(output(t, p, sb.ID, "echo works")) != "works" {
		t.Errorf("the launch returned %+v", sb)
	}
	if _, err := p.store.ReadLease(id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lease of the dead spare is still there: %v", err)
	}
}

// Prune removes a directory whose removal was interrupted after its lock was removed.
func TestDirectoryWithoutLock(t *testing.T) {
	p := sparing(t, 0, 0)
	dir := p.store.Dir("loc-halfgone")
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	left, err := p.Leftovers(t.Context())
	if err != nil || len(left) != 1 {
		t.Fatalf("leftovers: %v, %v", left, err)
	}
	if err := p.Sweep(t.Context(), left[0]); err != nil {
		t.Fatal(err)
	}
}

// A spare that cannot start leaves nothing.
func TestSpareThatCannotStart(t *testing.T) {
	p := sparing(t, 1, time.Minute)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	usual := p.opts.CacheDir
	p.opts.CacheDir = file
	err := p.prepareSpare("any", core.Spec{})
	p.opts.CacheDir = usual
	if err != nil {
		t.Fatal(err)
	}
	wantNothing(t, p)
	if left, err := p.store.Spares(); err != nil || len(left) > 0 {
		t.Errorf("spares: %v, %v", left, err)
	}
}

// A canceled launch ends the spare that it has claimed.
func TestCanceledClaim(t *testing.T) {
	p := sparing(t, 1, time.Minute)
	launched(t, p, nil)
	id := readySpare(t, p)
	ctx, cancel := context.WithCancel(providertest.Patient(t))
	defer cancel()
	atStoppedClaim(t, p, id, func(int) { cancel() })
	spec := core.Spec{Name: core.NewName(), Image: HostImage}
	_, err := p.Launch(ctx, spec, core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}, nil)
	if !errors.Is(err, core.KindCanceled) {
		t.Errorf("the canceled launch returned %v", err)
	}
	if _, err := os.Lstat(p.store.Dir(id)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the claimed spare is still there: %v", err)
	}
}

// A launch whose name is in use returns an error, and the spare that it claimed is gone.
func TestSpareNameInUse(t *testing.T) {
	p := sparing(t, 1, time.Minute)
	sb := launched(t, p, nil)
	readySpare(t, p)
	spec := core.Spec{Name: sb.Name, Image: HostImage, Network: core.Network{Mode: core.NetworkNone}}
	_, err := p.Launch(t.Context(), spec, core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}, nil)
	if !errors.Is(err, core.KindConflict) {
		t.Errorf("a launch with the name of another sandbox returned %v", err)
	}
	if all, err := p.List(t.Context()); err != nil || len(all) != 1 || all[0].ID != sb.ID {
		t.Errorf("listed after it: %v, %v", all, err)
	}
}

// Sandboxes from spares keep the contract.
func TestContractWithSpares(t *testing.T) {
	programtest.Long(t)
	t.Setenv("SB_SUITE_SECRET", "the host's")
	const age = 5 * time.Second
	open := opener(t, func(o *Options) { o.Spares, o.SpareAge = 2, age })
	providertest.Run(t, open)
	p, ok := open(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	within(t, "the last spare has ended and its directory is gone", func() bool {
		left, err := p.store.Spares()
		dirs, dirsErr := p.store.IDs()
		return errors.Join(err, dirsErr) == nil && len(left)+len(dirs) == 0
	})
}
