package docker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/seed-0724f904/sb/core"
)

// deadline bounds every wait.
const deadline = time.Minute

// box launches a sandbox, and terminates it at the end of the test.
func box(t *testing.T, p *Provider, change func(*core.Spec)) core.Sandbox {
	t.Helper()
	spec := core.Spec{Name: core.NewName(), Image: testImage, Network: core.Network{Mode: core.NetworkNone}}
	if change != nil {
		change(&spec)
	}
	sb, err := p.Launch(t.Context(), spec, lease(spec), nil)
	if err != nil {
		t.Fatalf("launching: %v (%s)", err, core.HintOf(err))
	}
	t.Cleanup(func() { end(t, p, sb.ID) })
	return sb
}

func lease(spec core.Spec) core.Lease {
	l := core.Lease{Owner: core.CurrentOwner("test"), Created: time.Now().UTC()}
	if spec.Timeout > 0 {
		l.Expires = l.Created.Add(time.Duration(spec.Timeout))
	}
	return l
}

func end(t *testing.T, p *Provider, id string) {
	t.Helper()
	if err := p.Terminate(context.WithoutCancel(t.Context()), id); err != nil && !errors.Is(err, core.KindNotFound) {
		t.Errorf("terminating: %v", err)
	}
}

// run runs a command to its end and returns its output and its exit code.
func run(t *testing.T, p *Provider, id string, spec core.ExecSpec) (out string, code int) {
	t.Helper()
	var both bytes.Buffer
	if spec.Stdout == nil {
		spec.Stdout, spec.Stderr = &both, &both
	}
	process, err := p.Exec(t.Context(), id, spec)
	if err != nil {
		t.Fatalf("%q: %v", spec.Command, err)
	}
	defer func() { _ = process.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	exit, err := process.Wait(ctx)
	if err != nil {
		t.Fatalf("%q: %v", spec.Command, err)
	}
	return both.String(), exit.Code
}

// sh runs a line of shell as root and returns its output and its exit code.
func sh(t *testing.T, p *Provider, id, line string) (string, int) {
	t.Helper()
	return run(t, p, id, core.ExecSpec{Command: []string{"sh", "-c", line}})
}

// raw returns a plain client of the engine.
func (e testEngine) raw(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(client.WithHost(e.host))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// eventually polls until holds returns true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(deadline)
	defer limit.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("it never came to pass: %s", what)
		}
	}
}

func wantKind(t *testing.T, err error, kind core.Kind) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error is %v (%v), want one of kind %v", err, core.KindOf(err), kind)
	}
}

// readable makes a directory that engines of other users can read.
func readable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sb-docker-test-") //nolint:usetesting // only its owner can enter t.TempDir
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// throughEngine is for tests with a dead or hanging engine: direct calls of root continue without the engine.
func throughEngine(opts *Options) { opts.EngineOnly = true }
