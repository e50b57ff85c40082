//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providertest"
)

// daemon is a test's own engine, which the test may kill.
type daemon struct {
	testEngine
	t       *testing.T
	dir     string
	command []string
	env     []string
	flags   uintptr // of clone(2)
	process *exec.Cmd
	ended   chan struct{}
	// stopHelper stops the daemon's other processes.
	stopHelper func()
}

// ownDocker starts a dockerd that shares no state with another.
func ownDocker(t *testing.T) *daemon {
	t.Helper()
	d := newDaemon(t, "dockerd")
	startDocker(t, d)
	return d
}

// startDocker starts a daemon as dockerd, with the arguments in more.
func startDocker(t *testing.T, d *daemon, more ...string) {
	t.Helper()
	d.command = []string{
		"dockerd", "--data-root", d.dir + "/data", "--exec-root", d.dir + "/exec", "--host", d.host, "--pidfile", d.dir +
			"/pid",
		"--containerd", d.dir + "/c.sock",
	}
	d.command = append(d.command, more...)
	// In its own network namespace: otherwise it would remove another dockerd's bridge.
	d.flags = syscall.CLONE_NEWNET
	// As under a service manager: containers outlive dockerd.
	containerd := exec.Command("containerd", "--root", d.dir+"/croot", "--state", d.dir+"/cstate", "--address", d.dir+
		"/c.sock", "--log-level", "error")
	if err := containerd.Start(); err != nil {
		t.Fatal(err)
	}
	d.stopHelper = func() {
		_ = containerd.Process.Kill()
		_ = containerd.Wait()
	}
	eventually(t, "containerd is there", func() bool {
		_, err := os.Stat(d.dir + "/c.sock")
		return err == nil
	})
	d.start()
}

// ownPodman starts a Podman service with its own store.
func ownPodman(t *testing.T) *daemon {
	t.Helper()
	d := newDaemon(t, "podman")
	// Podman requests more open files and processes than a machine may grant, and keeps the monitor of an exec for five
	// minutes.
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(
		"[containers]\ndefault_ulimits = [\"nofile=%d:%[1]d\", \"nproc=%[1]d:%[1]d\"]\n[engine]\nexit_command_delay = 0\n",
		min(limit.Max, 1<<14),
	)
	if err := os.WriteFile(d.dir+"/containers.conf", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d.env = append(os.Environ(), "CONTAINERS_CONF="+d.dir+"/containers.conf")
	d.command = []string{
		"podman", "--root", d.dir + "/root", "--runroot", d.dir + "/runroot", "--tmpdir", d.dir +
			"/tmp", "system", "service", "--time=0", d.host,
	}
	d.start()
	return d
}

func newDaemon(t *testing.T, program string) *daemon {
	t.Helper()
	if len(engines(t)) == 0 {
		return nil
	}
	if _, err := exec.LookPath(program); err != nil || os.Geteuid() != 0 {
		t.Skipf("this test needs root and %s", program)
	}
	dir, err := os.MkdirTemp("", "sbd") //nolint:usetesting // t.TempDir's name is too long for a socket's
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, dir: dir, testEngine: testEngine{name: program, host: "unix://" + dir + "/sock"}}
	t.Cleanup(d.remove)
	return d
}

// start starts the daemon and waits until it answers.
func (d *daemon) start() {
	d.t.Helper()
	_ = os.Remove(d.dir + "/sock")
	log, err := os.OpenFile(d.dir+"/log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	d.process = exec.Command(d.command[0], d.command[1:]...)
	d.process.Stdout, d.process.Stderr, d.process.Env = log, log, d.env
	d.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: d.flags}
	err = d.process.Start()
	_ = log.Close()
	if err != nil {
		d.t.Fatal(err)
	}
	d.ended = make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) {
		_ = process.Wait()
		close(ended)
	}(d.process, d.ended)
	c := d.raw(d.t)
	defer func() { _ = c.Close() }()
	eventually(d.t, "the engine answers", func() bool {
		select {
		case <-d.ended:
			text, _ := os.ReadFile(d.dir + "/log")
			d.t.Fatalf("the engine ended: %s", text)
		default:
		}
		ctx, cancel := context.WithTimeout(d.t.Context(), time.Second)
		defer cancel()
		_, err := c.Ping(ctx, client.PingOptions{})
		return err == nil
	})
}

// kill kills the daemon, as in a crash.
func (d *daemon) kill() {
	_ = d.process.Process.Kill()
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		d.t.Error("the engine did not end after SIGKILL")
	}
}

// remove stops the daemon and removes its leftovers: helpers, containers, mounts, files.
func (d *daemon) remove() {
	if d.process != nil {
		_ = d.process.Process.Signal(syscall.SIGCONT)
		_ = d.process.Process.Signal(syscall.SIGTERM)
		select {
		case <-d.ended:
		case <-time.After(20 * time.Second):
			d.kill()
		}
	}
	if d.stopHelper != nil {
		d.stopHelper()
	}
	for range 3 {
		for _, pid := range d.processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for _, line := range slices.Backward(strings.Split(string(mounts), "\n")) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], d.dir+"/") {
			_ = syscall.Unmount(f[1], syscall.MNT_DETACH)
		}
	}
	if err := os.RemoveAll(d.dir); err != nil {
		d.t.Errorf("the engine's files: %v", err)
	}
}

// processes returns the processes with the daemon's directory in their command line.
func (d *daemon) processes() []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(line), d.dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// hangs is far above every time limit of an operation with a hanging engine.
const hangs = 2 * time.Minute

// ends fails a test whose step took too long.
func ends(t *testing.T, what string, do func()) {
	t.Helper()
	begin := time.Now()
	do()
	if took := time.Since(begin); took > hangs {
		t.Errorf("%s took %s", what, took)
	}
}

func TestDockerKilled(t *testing.T) {
	d := ownDocker(t)
	d.load(t)
	p := d.open(t, throughEngine)
	sb := box(t, p, func(spec *core.Spec) { spec.Persist = true })
	if out, code := sh(t, p, sb.ID, "echo kept > /root/file"); code != 0 {
		t.Fatal(out)
	}
	running, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = running.Close() }()
	// Commands start and end while the engine dies. None may hang or report success wrongly.
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"sh", "-c", "sleep 0.05; exit 3"}})
				if err != nil {
					continue
				}
				exit, err := process.Wait(providertest.Patient(t))
				_ = process.Close()
				if err == nil && exit.Code != 3 && exit.Code != 137 {
					t.Errorf("a command under the crash ended with %+v", exit)
				}
			}
		})
	}
	eventually(t, "commands have run", func() bool {
		execs, err := p.Execs(t.Context(), sb.ID)
		return err == nil && len(execs) > 8
	})
	d.kill()
	ends(t, "learning of the crash", func() {
		if exit, err := running.Wait(providertest.Patient(t)); err == nil && exit.Code == 0 {
			t.Errorf("the command ended with %+v, %v", exit, err)
		}
	})
	ends(t, "failing", func() {
		_, err := p.List(t.Context())
		wantKind(t, err, core.KindUnavailable)
		_, err = p.Get(t.Context(), sb.ID)
		wantKind(t, err, core.KindUnavailable)
		_, err = p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"true"}})
		wantKind(t, err, core.KindUnavailable)
		wantKind(t, p.Terminate(t.Context(), sb.ID), core.KindUnavailable)
		_, err = p.Launch(t.Context(), core.Spec{Name: core.NewName(), Image: testImage}, core.Lease{}, nil)
		wantKind(t, err, core.KindUnavailable)
		wantKind(t, p.Check(t.Context()), core.KindUnavailable)
	})
	close(stop)
	wg.Wait()

	d.start()
	var got core.Sandbox
	eventually(t, "the state is known", func() bool {
		var err error
		got, err = p.Get(t.Context(), sb.ID)
		return err == nil && got.State != core.StateRunning
	})
	// The restarted engine stops the containers that it finds. Whether they still report their end depends on timing.
	if got.State != core.StateLost && got.State != core.StateStopped {
		t.Errorf("after the restart it is %s: %s", got.State, got.Message)
	}
	if all, err := p.List(t.Context()); err != nil || len(all) != 1 || all[0].State != got.State {
		t.Errorf("after the restart the list is %+v, %v", all, err)
	}
	if got, err := p.Start(t.Context(), sb.ID); err != nil || got.State != core.StateRunning {
		t.Fatalf("starting it again: %+v, %v", got, err)
	}
	if out, _ := sh(t, p, sb.ID, "cat /root/file"); out != "kept\n" {
		t.Errorf("the file holds %q", out)
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, d)
}

// nothingLeft checks that an engine has neither containers nor volumes after a prune.
func nothingLeft(t *testing.T, d *daemon) {
	t.Helper()
	sweepAll(t, d.open(t, nil))
	c := d.raw(t)
	containers, err := c.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	if err != nil || len(containers.Items) != 0 {
		t.Errorf("containers are left: %+v, %v", containers.Items, err)
	}
	volumes, err := c.VolumeList(t.Context(), client.VolumeListOptions{})
	if err != nil || len(volumes.Items) != 0 {
		t.Errorf("volumes are left: %+v, %v", volumes.Items, err)
	}
}

// Podman's service only serves the API: sandboxes continue without it.
func TestPodmanKilled(t *testing.T) {
	d := ownPodman(t)
	d.load(t)
	p := d.open(t, throughEngine)
	sb := box(t, p, nil)
	process, err := p.Exec(
		t.Context(), sb.ID,
		core.ExecSpec{Command: []string{"sh", "-c", "echo begun; while ! test -e /tmp/go; do sleep 0.05; done; exit 5"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	d.kill()
	ends(t, "failing", func() {
		_, err := process.Wait(providertest.Patient(t))
		wantKind(t, err, core.KindUnavailable)
		_, err = p.List(t.Context())
		wantKind(t, err, core.KindUnavailable)
		wantKind(t, p.Terminate(t.Context(), sb.ID), core.KindUnavailable)
	})
	d.start()
	if got, err := p.Get(t.Context(), sb.ID); err != nil || got.State != core.StateRunning {
		t.Fatalf("after the restart it is %+v, %v", got, err)
	}
	again, err := p.Attach(t.Context(), sb.ID, process.ID(), core.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if out, code := sh(t, p, sb.ID, "touch /tmp/go"); code != 0 {
		t.Fatal(out)
	}
	if exit, err := again.Wait(providertest.Patient(t)); err != nil || exit.Code != 5 {
		t.Errorf("the command ended with %+v, %v", exit, err)
	}
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, d)
}

// Calls to an engine that hangs return an error in time.
func TestDockerHangs(t *testing.T) {
	d := ownDocker(t)
	d.load(t)
	p := d.open(t, throughEngine)
	sb := box(t, p, nil)
	process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	if err := d.process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the engine has stopped", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.process.Process.Pid))
		return err == nil && strings.Contains(string(status), "State:\tT")
	})
	fresh, err := New(Options{Host: d.host, LookupEnv: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	ends(t, "first contact", func() {
		_, err := fresh.List(t.Context())
		wantKind(t, err, core.KindUnavailable)
	})
	ends(t, "a known engine", func() {
		_, err := p.List(t.Context())
		wantKind(t, err, core.KindUnavailable)
	})
	ends(t, "giving up", func() {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := process.Wait(ctx)
		wantKind(t, err, core.KindTimeout)
		_, err = p.Exec(ctx, sb.ID, core.ExecSpec{Command: []string{"true"}})
		wantKind(t, err, core.KindTimeout)
		wantKind(t, p.Terminate(ctx, sb.ID), core.KindTimeout)
	})
	if err := d.process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it works again", func() bool {
		got, err := p.Get(t.Context(), sb.ID)
		return err == nil && got.State == core.StateRunning
	})
	_ = fresh.Close()
}

// A socket that accepts connections and never answers is a hanging engine, too.
func TestUnresponsiveSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	p, err := New(Options{Host: "unix://" + path, LookupEnv: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	ends(t, "listing", func() {
		_, err := p.List(t.Context())
		wantKind(t, err, core.KindUnavailable)
	})
}

func TestTwentyAtOnce(t *testing.T) {
	for _, start := range []func(*testing.T) *daemon{ownDocker, ownPodman} {
		d := start(t)
		t.Run(d.name, func(t *testing.T) {
			d.load(t)
			p := d.open(t, nil)
			ids := make([]string, 20)
			var wg sync.WaitGroup
			for i := range ids {
				wg.Go(func() {
					spec := core.Spec{
						Name: core.NewName() + strconv.Itoa(i), Image: testImage, Network: core.Network{Mode: core.NetworkNone},
					}
					sb, err := p.Launch(t.Context(), spec, lease(spec), nil)
					if err != nil {
						t.Errorf("launch %d: %v", i, err)
						return
					}
					ids[i] = sb.ID
					if out, code := sh(t, p, sb.ID, "echo "+strconv.Itoa(i)); out != strconv.Itoa(i)+"\n" || code != 0 {
						t.Errorf("sandbox %d: %q, %d", i, out, code)
					}
				})
			}
			wg.Wait()
			all, err := p.List(t.Context())
			if err != nil || len(all) != len(ids) {
				t.Errorf("the list has %d, %v", len(all), err)
			}
			for i, id := range ids {
				wg.Go(func() {
					if err := p.Terminate(t.Context(), id); err != nil {
						t.Errorf("ending %d: %v", i, err)
					}
				})
			}
			wg.Wait()
			nothingLeft(t, d)
			eventually(t, "no process is left", func() bool {
				left := d.processes()
				return !slices.ContainsFunc(left, func(pid int) bool {
					line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
					return err == nil && (strings.Contains(string(line), "shim") || strings.Contains(string(line), "conmon"))
				})
			})
		})
	}
}

// A canceled launch leaves nothing.
func TestLaunchCanceled(t *testing.T) {
	d := ownDocker(t)
	d.load(t)
	p := d.open(t, nil)
	for after := time.Millisecond; after < 2*time.Second; after = after * 5 / 3 {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		spec := core.Spec{Name: core.NewName(), Image: testImage, Network: core.Network{Mode: core.NetworkNone}}
		sb, err := p.Launch(ctx, spec, lease(spec), nil)
		cancel()
		if err == nil {
			end(t, p, sb.ID)
			break
		}
		if !errors.Is(err, core.KindTimeout) {
			t.Errorf("given up after %s: %v (%v)", after, err, core.KindOf(err))
		}
	}
	nothingLeft(t, d)
}

func TestNoEngine(t *testing.T) {
	for _, opts := range []Options{
		{Host: NoHost},
		{LookupEnv: func(name string) (string, bool) {
			return map[string]string{"HOME": t.TempDir(), "XDG_RUNTIME_DIR": t.TempDir()}[name], true
		}},
	} {
		if opts.Host == "" {
			if _, err := os.Stat("/var/run/docker.sock"); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if _, err := os.Stat("/run/podman/podman.sock"); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		p, err := New(opts)
		if err != nil {
			t.Fatal(err)
		}
		if all, err := p.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("without an engine the list is %v, %v", all, err)
		}
		_, err = p.Get(t.Context(), "dkr-0123456789ab")
		wantKind(t, err, core.KindNotFound)
		wantKind(t, p.Check(t.Context()), core.KindUnavailable)
		if core.HintOf(p.Check(t.Context())) == "" {
			t.Error("there is no hint")
		}
	}
}
