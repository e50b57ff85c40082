//go:build linux

package local

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/local/store"
	"github.com/seed-0724f904/sb/core/providertest"
)

// forkOf forks a sandbox; the fork ends with the test.
func forkOf(t *testing.T, p *Provider, id string) core.Sandbox {
	t.Helper()
	fork, err := p.Fork(
		t.Context(), id, core.ForkSpec{Name: core.NewName()},
		core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()},
	)
	if err != nil {
		t.Fatalf("forking: %v (%s)", err, core.HintOf(err))
	}
	t.Cleanup(func() {
		if err := p.Terminate(context.WithoutCancel(t.Context()), fork.ID); err != nil && !errors.Is(err, core.KindNotFound) {
			t.Error(err)
		}
	})
	return fork
}

// output runs a line of shell and returns its output.
func output(t *testing.T, p *Provider, id, line string) string {
	t.Helper()
	var out lockedBuilder
	process, err := p.Exec(t.Context(), id, core.ExecSpec{Command: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	if _, err := process.Wait(providertest.Patient(t)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// counted returns the last number in a command's log.
func counted(t *testing.T, p *Provider, id, exec string) int {
	t.Helper()
	last := 0
	for record, err := range p.Logs(t.Context(), id, core.LogOptions{Exec: exec, Tail: -1}) {
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(record.Data))
		if n, err := strconv.Atoi(fields[len(fields)-1]); err == nil {
			last = n
		}
	}
	return last
}

const counter = "i=0; while sleep 0.02; do i=$((i+1)); echo $i; done"

func TestForkResumesProcess(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) {
		spec.Command, spec.Memory = []string{"sh", "-c", counter}, 512*core.MiB
		spec.Network.Mode = core.NetworkAll
		spec.Ports = []core.Port{{Sandbox: 7070}}
	})
	detached, err := p.Exec(
		t.Context(), sb.ID, core.ExecSpec{Command: []string{"sh", "-c", counter}, Detach: true, Timeout: time.Hour},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = detached.Close() }()
	server, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"python3", "-c", echoServer}, Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	within(t, "the echo server listens", func() bool { return counted(t, p, sb.ID, server.ID()) == 1 })
	waited, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = waited.Close() }()
	shell, err := p.Exec(
		t.Context(), sb.ID, core.ExecSpec{Command: []string{"sh"}, TTY: true, Stdin: idle(t), Stdout: io.Discard},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shell.Close() }()
	conn := dialEcho(t, sb)
	within(t, "both commands count", func() bool {
		return counted(t, p, sb.ID, "0") > 2 &&
			counted(t, p, sb.ID, detached.ID()) > 2
	})
	before := counted(t, p, sb.ID, "0")

	fork := forkOf(t, p, sb.ID)
	if fork.Ports[0].Address == sb.Ports[0].Address {
		t.Error("the fork has its source's port")
	}
	for _, exec := range []string{"0", detached.ID()} {
		within(t, "it continues in the fork", func() bool { return counted(t, p, fork.ID, exec) > before })
	}
	echo(t, dialEcho(t, fork))
	if names := output(t, p, fork.ID, "hostname; cat /etc/hostname; pgrep -c -f -x 'sleep 600'"); names != fork.Name+
		"\n"+fork.Name+"\n0\n" {
		t.Errorf("in the fork: %q", names)
	}
	within(t, "what it began with is removed", func() bool {
		_, err := os.Stat(filepath.Join(p.store.Dir(fork.ID), store.ImageDir))
		return os.IsNotExist(err)
	})
	// The source: its connection, its commands, its terminal.
	echo(t, conn)
	after := counted(t, p, sb.ID, "0")
	within(t, "the source keeps running", func() bool { return counted(t, p, sb.ID, "0") > after })
	for _, process := range []core.Process{waited, shell} {
		if err := process.Signal(t.Context(), 9); err != nil {
			t.Fatal(err)
		}
		if exit, err := process.Wait(providertest.Patient(t)); err != nil || exit.Code != 137 {
			t.Errorf("a command of the source ended with %+v, %v", exit, err)
		}
	}
	// The fork's end is its own entry command's.
	entry, err := p.Attach(t.Context(), fork.ID, "0", core.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = entry.Close() }()
	if err := entry.Signal(t.Context(), 15); err != nil {
		t.Fatal(err)
	}
	if ended, err := p.WaitSandbox(providertest.Patient(t), fork.ID); err != nil || ended.Reason != core.ReasonCommand ||
		*ended.ExitCode != 143 {
		t.Errorf("the fork ended as %+v, %v", ended, err)
	}
	if leftovers, err := p.Leftovers(t.Context()); err != nil || len(leftovers) != 0 {
		text, _ := os.ReadFile(filepath.Join(p.store.Dir(fork.ID), "supervisor.log"))
		t.Errorf("left over: %+v, %v %s", leftovers, err, text)
	}
}

const echoServer = `import socket
s = socket.create_server(("0.0.0.0", 7070))
print(1, flush=True)
while True:
    c, _ = s.accept()
    import threading
    def serve(c=c):
        while True:
            d = c.recv(100)
            if not d: return
            c.sendall(d)
    threading.Thread(target=serve, daemon=True).start()
`

// idle returns an input without data.
func idle(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(); _ = r.Close() })
	return r
}

// dialEcho connects to the echo server in a sandbox, once it listens.
func dialEcho(t *testing.T, sb core.Sandbox) net.Conn {
	t.Helper()
	var conn net.Conn
	within(t, "the echo server answers", func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", sb.Ports[0].Address)
		if err != nil {
			return false
		}
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		_, _ = io.WriteString(c, "hello\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "hello\n" {
			_ = c.Close()
			return false
		}
		conn = c
		return true
	})
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func echo(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.WriteString(conn, "again\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "again\n" {
		t.Errorf("the connection answers %q, %v", line, err)
	}
}

func TestForkOfAPersistentSandbox(t *testing.T) {
	p, sb := crashed(t, func(spec *core.Spec) {
		spec.Persist = true
		spec.Secrets = []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("s3cret")}}
	})
	output(t, p, sb.ID, "echo kept > /root/file")
	fork := forkOf(t, p, sb.ID)
	output(t, p, fork.ID, "echo more >> /root/file")
	if err := p.Stop(t.Context(), fork.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start(t.Context(), fork.ID); err != nil {
		t.Fatal(err)
	}
	if text := output(t, p, fork.ID, "cat /root/file; echo $TOKEN"); text != "kept\nmore\ns3cret\n" {
		t.Errorf("the fork after a stop: %q", text)
	}
	if text := output(t, p, sb.ID, "cat /root/file"); text != "kept\n" {
		t.Errorf("the source: %q", text)
	}
}

func TestForkCanceled(t *testing.T) {
	p, sb := crashed(t, nil)
	before, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clean := func(what string) {
		t.Helper()
		all, err := p.List(t.Context())
		leftovers, sweepErr := p.Leftovers(t.Context())
		if err != nil || sweepErr != nil || len(all) != len(before) || len(leftovers) != 0 {
			t.Errorf("%s: left behind are %+v, %+v, %v, %v", what, all, leftovers, err, sweepErr)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Fork(ctx, sb.ID, core.ForkSpec{Name: core.NewName()}, core.Lease{}); err == nil {
		t.Error("a canceled fork was made")
	}
	clean("given up")
	// A client that is killed while the image is written leaves a lease and half an image.
	lock, err := p.store.Create("loc-forkfork")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.WriteLease(p.store.Dir("loc-forkfork"), leaseOf("loc-forkfork")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.keep(t.Context(), sb.ID, filepath.Join(p.store.Dir("loc-forkfork"), "image")); err != nil {
		t.Fatal(err)
	}
	_ = lock.Close()
	if got, err := p.Get(t.Context(), "loc-forkfork"); err != nil || got.State != core.StateLost {
		t.Errorf("it is %+v, %v", got, err)
	}
	if err := p.Terminate(t.Context(), "loc-forkfork"); err != nil {
		t.Fatal(err)
	}
	clean("killed")
	draft, err := p.store.Checkpoints().Draft()
	if err != nil {
		t.Fatal(err)
	}
	clean("a checkpoint that is being made")
	draft.Close()
	if err := os.Mkdir(filepath.Join(p.opts.StateDir, Name, "checkpoints", ".new-killed"), 0o700); err != nil {
		t.Fatal(err)
	}
	leftovers, err := p.Leftovers(t.Context())
	if err != nil || len(leftovers) != 1 {
		t.Fatalf("%+v, %v", leftovers, err)
	}
	if err := p.Sweep(t.Context(), leftovers[0]); err != nil {
		t.Error(err)
	}
	clean("swept")
	if text := output(t, p, sb.ID, "echo on"); text != "on\n" {
		t.Errorf("the source: %q", text)
	}
}

func TestForkSharesVolumesAndHidesSecrets(t *testing.T) {
	shared := t.TempDir()
	p, ok := opener(t, nil)(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	spec := core.Spec{Name: core.NewName(), Image: HostImage, Volumes: []core.Volume{{Source: shared, Target: "/shared"}}}
	sb, err := p.Launch(t.Context(), spec, core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Terminate(context.WithoutCancel(t.Context()), sb.ID) })
	process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{
		Command: []string{"sh", "-c", "while sleep 0.02; do echo $TOKEN x; done"}, Detach: true,
		Secrets: []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("a-long-s3cret")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	fork := forkOf(t, p, sb.ID)
	output(t, p, fork.ID, "echo fork > /shared/file")
	if text := output(t, p, sb.ID, "cat /shared/file"); text != "fork\n" {
		t.Errorf("the source sees %q", text)
	}
	var log strings.Builder
	within(t, "the fork's journal has output", func() bool {
		log.Reset()
		for record, err := range p.Logs(t.Context(), fork.ID, core.LogOptions{Exec: process.ID(), Tail: -1}) {
			if err != nil {
				t.Fatal(err)
			}
			log.Write(record.Data)
		}
		return strings.Count(log.String(), "x\n") > 1
	})
	if strings.Contains(log.String(), "s3cret") {
		t.Errorf("the fork's journal has a secret: %q", log.String())
	}
}
