//go:build linux

package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core/agent/program"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// inside is the variable that is set when this program runs in its namespaces.
const inside = "SB_TEST_INSIDE"

// The tests run in their own mount namespace, like a supervisor. For an ordinary user they also run in a user
// namespace. The sentry is a static build of sb-runtime.
func TestMain(m *testing.M) {
	if n := os.Getenv(threads); n != "" {
		startThreads(n)
		return
	}
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	os.Exit(inNamespaces())
}

func inNamespaces() int {
	remove, err := programtest.Build("sb-runtime", "sb-guest")
	defer remove()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Run(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		}
		panic(err)
	}
	return 0
}

const testPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func start(tb testing.TB, change func(*Config)) *Box {
	tb.Helper()
	c := testConfig(tb)
	if change != nil {
		change(&c)
	}
	box, err := Start(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := box.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return box
}

// testConfig is the configuration of a sandbox whose directories are removed after the test.
func testConfig(tb testing.TB) Config {
	tb.Helper()
	// The name is short, because gVisor's socket is in it. stateDir mounts a longer one, which works once in a process.
	dir, err := os.MkdirTemp("/tmp", "sb-engine-") //nolint:usetesting // a short name is needed
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	bin := programtest.Dir()
	c := Config{
		ID: "test-" + filepath.Base(dir), Dir: filepath.Join(dir, "run"), OverlayDir: filepath.Join(dir, "overlay"),
		Executable: filepath.Join(bin, "sb-runtime"), Guest: filepath.Join(bin, "sb-guest"),
		Hostname: "box", Env: []string{testPath},
		Limits: Limits{Memory: 512 << 20, Disk: 256 << 20, Processes: 256, OpenFiles: 1024},
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	return c
}

// hangs bounds each wait for a process inside.
const hangs = 2 * time.Minute

type waiter interface{ Wait() (Exit, error) }

// ended returns how a process ended, and fails the test when it does not.
func ended(tb testing.TB, process waiter) (Exit, error) {
	tb.Helper()
	type end struct {
		exit Exit
		err  error
	}
	ends := make(chan end, 1)
	go func() {
		exit, err := process.Wait()
		ends <- end{exit, err}
	}()
	got := providertest.Receive(tb, ends)
	return got.exit, got.err
}

// run executes argv and returns its output and its exit.
func run(tb testing.TB, box *Box, argv ...string) (string, Exit) {
	tb.Helper()
	return output(tb, box, Command{Argv: argv, Env: []string{testPath}})
}

// output executes a command and returns its output and its exit.
func output(tb testing.TB, box *Box, command Command) (string, Exit) {
	tb.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	out, in, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	command.Dir, command.Files = "/", []*os.File{null, in, in}
	process, err := box.Exec(tb.Context(), command)
	_ = in.Close()
	if err != nil {
		tb.Fatal(err)
	}
	if err := out.SetReadDeadline(time.Now().Add(hangs)); err != nil {
		tb.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		tb.Fatal(err)
	}
	_ = out.Close()
	exit, err := ended(tb, process)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text), exit
}

func TestExec(t *testing.T) {
	box := start(t, nil)
	for _, test := range []struct {
		name string
		argv []string
		out  string
		exit Exit
	}{
		{"output", []string{"echo", "hello"}, "hello\n", Exit{}},
		{"code", []string{"sh", "-c", "exit 7"}, "", Exit{Code: 7}},
		{"signal", []string{"sh", "-c", "kill -9 $$"}, "", Exit{Signal: syscall.SIGKILL}},
		{"hostname", []string{"hostname"}, "box\n", Exit{}},
		{
			"no home of the host",
			[]string{"sh", "-c", "ls -A /root /home /srv /run/user 2>/dev/null | grep -v -e : -e user -e '^$'"},
			"",
			Exit{Code: 1},
		},
		{"no shadow", []string{"cat", "/etc/shadow"}, "cat: /etc/shadow: No such file or directory\n", Exit{Code: 1}},
		{"writable", []string{"sh", "-c", "echo x > /usr/bin/new && cat /usr/bin/new"}, "x\n", Exit{}},
		{
			"chown",
			[]string{"sh", "-c", "touch /tmp/f && chown 1000:1000 /tmp/f && stat -c %u:%g /tmp/f"},
			"1000:1000\n",
			Exit{},
		},
		{"environment", []string{"env"}, testPath + "\nHOME=/root\n", Exit{}},
		{"memory shown", []string{"awk", "/MemTotal/ {print $2}", "/proc/meminfo"}, "524288\n", Exit{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, exit := run(t, box, test.argv...)
			if out != test.out || exit != test.exit {
				t.Errorf("%v wrote %q and ended with %+v; want %q, %+v", test.argv, out, exit, test.out, test.exit)
			}
		})
	}
}

func TestExecErrors(t *testing.T) {
	box := start(t, nil)
	if _, exit := run(t, box, "sh", "-c", "echo > /tmp/plain; mkdir /tmp/dir"); exit.Code != 0 {
		t.Fatal(exit)
	}
	for argv, want := range map[string]error{
		"nothing-of-that-name": program.ErrNotFound, "/no/such/file": program.ErrNotFound,
		"/tmp/plain": program.ErrNotExecutable, "/tmp/dir": program.ErrNotExecutable,
	} {
		_, err := box.Exec(t.Context(), Command{Argv: []string{argv}, Env: []string{testPath}, Dir: "/"})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", argv, err, want)
		}
	}
}

func TestFilesAndUsage(t *testing.T) {
	box := start(t, nil)
	if out, exit := run(
		t, box, "sh", "-c", "head -c 50000000 /dev/urandom > /root/big && echo -n content > /root/small",
	); exit.Code != 0 {
		t.Fatal(out)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	if err := box.ReadFile("/root/small", in); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	if text, _ := io.ReadAll(out); string(text) != "content" {
		t.Errorf("read %q", text)
	}
	usage, err := box.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if usage.CPU <= 0 || usage.Memory <= 0 || usage.Processes < 1 || usage.Disk < 50000000 {
		t.Errorf("usage is %+v", usage)
	}
	if out, exit := run(t, box, "sh", "-c", "head -c 400000000 /dev/zero > /root/full"); exit.Code == 0 ||
		!strings.Contains(out, "No space left") {
		t.Errorf("filling the disk: %q, %+v", out, exit)
	}
}

func TestMemoryOutsideFiles(t *testing.T) {
	box := start(t, nil)
	before, err := box.Overhead()
	if err != nil {
		t.Fatal(err)
	}
	own, err := anonymous(os.Getpid())
	if err != nil || before-own < 1<<20 {
		t.Errorf("the kernel and the file server hold %d bytes, %v", before-own, err)
	}
	const more = 64 << 20
	held := make([]byte, more)
	for i := 0; i < len(held); i += os.Getpagesize() {
		held[i] = 1
	}
	after, err := box.Overhead()
	if err != nil || after < before+more/2 {
		t.Errorf("with %d bytes more it is %d after %d, %v", more, after, before, err)
	}
	runtime.KeepAlive(held)
}

// fill starts processes as several users, root last, until the sandbox's limit refuses more.
const fill = `for u in 1001 1002 1003 0; do
	setpriv --reuid $u --clear-groups \
		sh -c 'i=0; while [ $i -lt 200 ]; do sleep 1000 >/dev/null & i=$((i+1)); done; echo all'
done </dev/null 2>/dev/null`

// The limit of processes holds for all users together, root among them. Commands from outside are not refused.
func TestProcessLimit(t *testing.T) {
	box := start(t, func(c *Config) { c.Limits.Processes = 64 })
	filled(t, box, 64)
	if out, exit := run(t, start(t, nil), "echo", "neighbor"); out != "neighbor\n" {
		t.Errorf("the neighbor is hurt: %q %+v", out, exit)
	}
}

// File operations need threads, and work in a sandbox that root has filled.
func TestHelpersOfAFullSandbox(t *testing.T) {
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	box := start(t, func(c *Config) { c.Limits.Processes = 64 })
	run(t, box, "sh", "-c", "i=0; while [ $i -lt 200 ]; do sleep 1000 </dev/null >/dev/null 2>&1 & i=$((i+1)); done")
	for hidden, want := range map[bool]*regexp.Regexp{true: regexp.MustCompile("50 threads"), false: noThread} {
		command := Command{Argv: []string{"threads"}, Env: []string{threads + "=50"}, Program: program, Hidden: hidden}
		if out, _ := output(t, box, command); !want.MatchString(out) {
			t.Errorf("a helper (%t) in a full sandbox: %.200q", hidden, out)
		}
	}
}

// A helper of root has a capability that nothing else has, so nothing else can trace it. Another user's helper has it
// in its bounding set.
func TestHelpersAreMarked(t *testing.T) {
	box := start(t, nil)
	marked := func(command Command, set string) bool {
		command.Argv, command.Env = []string{"grep", set, "/proc/self/status"}, []string{testPath}
		out, _ := output(t, box, command)
		_, mask, _ := strings.Cut(strings.TrimSpace(out), "\t")
		bits, err := strconv.ParseUint(mask, 16, 64)
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		return bits&(1<<helperMark) != 0
	}
	for _, test := range []struct {
		command Command
		set     string
		want    bool
	}{
		{Command{Hidden: true}, "CapPrm", true},
		{Command{}, "CapPrm", false},
		{Command{}, "CapBnd", false},
		{Command{Hidden: true, UID: 1000, GID: 1000}, "CapBnd", true},
		{Command{UID: 1000, GID: 1000}, "CapBnd", false},
	} {
		if got := marked(test.command, test.set); got != test.want {
			t.Errorf("%s of user %d, hidden %t: marked %t", test.set, test.command.UID, test.command.Hidden, got)
		}
	}
}

// filled fills a sandbox and checks its limit.
func filled(t *testing.T, box *Box, limit int) {
	t.Helper()
	out, _ := run(t, box, "sh", "-c", fill)
	usage, err := box.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if got := usage.Processes - 1; strings.Contains(out, "all") || got > limit || got < limit-8 {
		t.Errorf("%d processes under a limit of %d: %q", got, limit, out)
	}
	// kill is built into the shell, and spares the first process.
	if _, exit := run(t, box, "sh", "-c", "kill -KILL -1"); exit.Signal != syscall.SIGKILL && exit.Code != 0 {
		t.Errorf("the full sandbox cannot be cleared: %+v", exit)
	}
	for end := time.Now().Add(hangs); ; time.Sleep(10 * time.Millisecond) { // they are still ending
		out, exit := run(t, box, "sh", "-c", "echo $(echo free)")
		if out == "free\n" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the cleared sandbox starts no processes: %q, %+v", out, exit)
		}
	}
}

// Threads count as processes do. A Go program ends when it gets no thread.
func TestProcessLimitCountsThreads(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]*regexp.Regexp{64: noThread, 1024: regexp.MustCompile("200 threads")} {
		box := start(t, func(c *Config) {
			c.Limits.Processes = limit
			c.Volumes = []Volume{{Source: filepath.Dir(program), Target: "/mnt/tests", ReadOnly: true}}
		})
		out, _ := run(t, box, "env", threads+"=200", "/mnt/tests/"+filepath.Base(program))
		if !want.MatchString(out) {
			t.Errorf("under a limit of %d: %.200q", limit, out)
		}
	}
}

// threads is the variable that makes this program start that number of threads.
const threads = "SB_TEST_THREADS"

// noThread is the output of a Go program that gets no thread, without and with cgo. The race detector needs cgo.
var noThread = regexp.MustCompile("errno=11|pthread_create failed: Resource temporarily unavailable")

func startThreads(number string) {
	n, err := strconv.Atoi(number)
	if err != nil {
		panic(err)
	}
	started := make(chan bool)
	for range n {
		go func() {
			runtime.LockOSThread()
			started <- true
			select {}
		}()
		<-started
	}
	fmt.Println(n, "threads")
}

// A sandbox that forks up to its limit keeps running.
func TestForkBomb(t *testing.T) {
	programtest.Long(t)
	for _, uid := range []uint32{1000, 0} {
		box := start(t, func(c *Config) { c.Limits = Limits{Memory: 2 << 30, Disk: 1 << 30, Processes: 1024} })
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = box.Exec(t.Context(), Command{
			Argv: []string{"sh", "-c", "f() { f | f & }; f; sleep 100"}, Env: []string{testPath}, Dir: "/", UID: uid, GID: uid,
			Files: []*os.File{null, null, null},
		})
		_ = null.Close()
		if err != nil {
			t.Fatal(err)
		}
		most := 0
		for end := time.Now().Add(time.Minute); most < 1000 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			usage, err := box.Usage()
			if err != nil {
				t.Fatalf("user %d, with %d processes: %v", uid, most, err)
			}
			most = max(most, usage.Processes)
		}
		if out, exit := run(t, box, "echo", "alive"); exit.Code != 0 || most < 1000 || most > 1026 {
			t.Errorf("user %d, with %d processes: %q, %+v", uid, most, out, exit)
		}
	}
}

func TestFreeze(t *testing.T) {
	box := start(t, nil)
	if err := box.Freeze(); err != nil {
		t.Fatal(err)
	}
	// A signal takes effect when the process is next scheduled.
	limit := time.Now().Add(20 * time.Second)
	for stopped := false; !stopped; {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(box.SandboxPID()), "stat"))
		if err != nil {
			t.Fatal(err)
		}
		stopped = bytes.Contains(stat, []byte(") T "))
		if time.Now().After(limit) {
			t.Fatalf("the sentry is not stopped: %s", stat)
		}
	}
	if err := box.Thaw(); err != nil {
		t.Fatal(err)
	}
	if out, _ := run(t, box, "echo", "awake"); out != "awake\n" {
		t.Errorf("after the thaw: %q", out)
	}
	if err := box.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := box.Stop(); err != nil {
		t.Errorf("stopping a frozen sandbox: %v", err)
	}
}

func TestSaveAndRestore(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "gen")
	first := start(t, nil)
	if _, exit := run(
		t, first, "sh", "-c", "echo kept > /root/file; rm /usr/bin/env; chown 5:6 /root/file",
	); exit.Code != 0 {
		t.Fatal(exit)
	}
	if err := first.SaveFS(saved); err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	second := start(t, func(c *Config) { c.Restore = saved })
	out, exit := run(t, second, "sh", "-c", "cat /root/file; stat -c %u:%g /root/file; test -e /usr/bin/env || echo gone")
	if out != "kept\n5:6\ngone\n" || exit.Code != 0 {
		t.Errorf("restored: %q %+v", out, exit)
	}
}

func TestKilledSentryIsNoticed(t *testing.T) {
	box := start(t, nil)
	if err := syscall.Kill(box.SandboxPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-box.Done():
	case <-time.After(time.Minute):
		t.Fatal("it was not noticed")
	}
}

// Operations on a sandbox that ends or has ended fail.
// A start fails when the gofer dies. At some moments the sentry waits without end for a dead gofer; here a stopped
// sentry stands for it.
func TestStartEndsWithTheGofer(t *testing.T) {
	c := testConfig(t)
	c.configureGVisor()
	box := &Box{config: c, done: make(chan struct{})}
	defer box.abandon()
	if err := box.create(); err != nil {
		t.Fatal(err)
	}
	sentry, gofer := box.processes[0], box.processes[1]
	if err := signal(syscall.SIGSTOP, sentry); err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { started <- box.run(t.Context()) }()
	if err := signal(syscall.SIGKILL, gofer); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-started:
		if err == nil {
			t.Error("it started without its gofer")
		}
	case <-time.After(hangs):
		t.Error("it waits for its gofer")
		_ = signal(syscall.SIGKILL, sentry)
		if err := <-started; err == nil {
			t.Error("it started")
		}
	}
}

func TestCallsAtItsEnd(t *testing.T) {
	box := start(t, nil)
	dir := t.TempDir()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	execute := func() error {
		process, err := box.Exec(
			t.Context(), Command{Argv: []string{"true"}, Env: []string{testPath}, Dir: "/", Files: []*os.File{null, null, null}},
		)
		if err == nil {
			_, err = process.Wait()
		}
		return err
	}
	usage := func() error { _, err := box.Usage(); return err }
	var saves atomic.Int64
	save := func() error { return box.SaveFS(filepath.Join(dir, strconv.FormatInt(saves.Add(1), 10))) }
	signal := func() error { return box.SignalAll(syscall.SIGCONT) }
	var calls sync.WaitGroup
	begun := make(chan struct{}, 4)
	for _, call := range []func() error{execute, usage, save, signal} {
		calls.Go(func() {
			err := call()
			begun <- struct{}{}
			for err == nil {
				err = call()
			}
		})
	}
	for range cap(begun) {
		providertest.Receive(t, begun)
	}
	if err := box.Stop(); err != nil {
		t.Error(err)
	}
	calls.Wait()
	for _, call := range []func() error{execute, usage, save, signal} {
		if err := call(); !errors.Is(err, errEnded) {
			t.Errorf("after its end: %v", err)
		}
	}
}

func TestNetworkInterface(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	host, nic := os.NewFile(uintptr(fds[0]), "host"), os.NewFile(uintptr(fds[1]), "nic")
	defer func() { _ = host.Close() }()
	defer func() { _ = nic.Close() }()
	box := start(t, func(c *Config) {
		c.Network = &Network{
			NIC: nic, MTU: 1500, Address: netip.MustParseAddr("10.88.0.2"), Gateway: netip.MustParseAddr("10.88.0.1"), Bits: 24,
		}
	})
	out, exit := run(t, box, "sh", "-c", "cat /etc/resolv.conf; cat /proc/net/dev | grep -c eth0")
	if !strings.Contains(out, "nameserver 10.88.0.1") || !strings.HasSuffix(out, "1\n") {
		t.Errorf("%q %+v", out, exit)
	}
}

func BenchmarkExecTrue(b *testing.B) {
	box := start(b, nil)
	run(b, box, "true")
	for b.Loop() {
		run(b, box, "true")
	}
}

func BenchmarkStartToFirstExec(b *testing.B) {
	for b.Loop() {
		box := start(b, nil)
		run(b, box, "true")
		if err := box.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}
