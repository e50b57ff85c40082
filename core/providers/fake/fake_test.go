package fake_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
)

// launch makes a sandbox at a provider, and shuts the provider down at the end of the test.
func launch(t *testing.T, p *fake.Provider, spec core.Spec) core.Sandbox {
	t.Helper()
	t.Cleanup(p.Shutdown)
	if spec.Name == "" {
		spec.Name = core.NewName()
	}
	sb, err := p.Launch(t.Context(), spec, core.Lease{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

// run runs a line of shell to its end.
func run(t *testing.T, p *fake.Provider, id, line string) (string, core.Exit) {
	t.Helper()
	var out bytes.Buffer
	process, err := p.Exec(t.Context(), id, core.ExecSpec{Command: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := process.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String(), exit
}

func TestInject(t *testing.T) {
	p := fake.New(fake.Options{})
	broken := core.Errorf(core.KindUnavailable, "list", "", "the cable is out")
	p.Inject(fake.OpList, fake.Fault{Err: broken, Times: 2})
	for range 2 {
		if _, err := p.List(t.Context()); !errors.Is(err, broken) {
			t.Errorf("List: %v", err)
		}
	}
	if _, err := p.List(t.Context()); err != nil {
		t.Errorf("the third time: %v", err)
	}
	p.Inject(fake.OpLaunch, fake.Fault{Err: broken})
	if _, err := p.Launch(t.Context(), core.Spec{Name: "a"}, core.Lease{}, nil); !errors.Is(err, core.KindUnavailable) {
		t.Errorf("Launch: %v", err)
	}
	if all, err := p.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("a launch that failed left %+v, %v", all, err)
	}
	p.Inject(fake.OpLaunch, fake.Fault{})
	launch(t, p, core.Spec{Name: "a"})
}

func TestDelayPassesInTheCallersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fake.New(fake.Options{})
		p.Inject(fake.OpCheck, fake.Fault{Delay: time.Hour, Times: 2})
		start := time.Now()
		if err := p.Check(t.Context()); err != nil || time.Since(start) != time.Hour {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start = time.Now()
		if err := p.Check(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

func TestLifetimesInSyntheticTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fake.New(fake.Options{})
		defer p.Shutdown()
		sb := launch(t, p, core.Spec{IdleTimeout: core.Duration(time.Hour), Timeout: core.Duration(24 * time.Hour)})
		start := time.Now()
		process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"sleep", "7200"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = process.Close() }()
		ended, err := p.WaitSandbox(t.Context(), sb.ID)
		if err != nil || ended.Reason != core.ReasonIdle || time.Since(start) != 3*time.Hour {
			t.Errorf("after %s: %+v, %v", time.Since(start), ended, err)
		}
	})
}

func TestPrograms(t *testing.T) {
	p := fake.New(fake.Options{Programs: map[string]fake.Program{
		"greet": func(_ context.Context, c *fake.Call) int {
			_, _ = fmt.Fprintf(c.Stdout, "%s from %s to %s\n", c.Getenv("WORD"), c.Dir, strings.Join(c.Args[1:], ","))
			_, _ = io.Copy(c.Stdout, c.Stdin)
			return 3
		},
	}})
	sb := launch(t, p, core.Spec{Env: map[string]string{"WORD": "hello"}, Workdir: "/app"})
	if out, exit := run(t, p, sb.ID, "echo and more | greet a b"); out != "hello from /app to a,b\nand more\n" ||
		exit.Code != 3 {
		t.Errorf("%q, %+v", out, exit)
	}
	// A program is a file: copies and links run, and a removed program is not found.
	if out, exit := run(
		t, p, sb.ID, "ln -s /usr/bin/greet hi; ./hi x </dev/null; rm /usr/bin/greet; greet",
	); exit.Code != 127 || !strings.HasPrefix(out, "hello from /app to x\n") {
		t.Errorf("%q, %+v", out, exit)
	}
	if out, _ := run(
		t, p, sb.ID, "printf '#!/bin/sh\\necho script $1\\n' > s; chmod 755 s; ./s one",
	); out != "script one\n" {
		t.Errorf("a script wrote %q", out)
	}
}

func TestSlowReaderOfAKilledCommand(t *testing.T) {
	p := fake.New(fake.Options{})
	sb := launch(t, p, core.Spec{})
	r, w := io.Pipe()
	process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"yes"}, Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	// The output has no reader, and the sandbox can still be terminated.
	if err := p.Terminate(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if exit, err := process.Wait(t.Context()); err != nil || exit.Signal != 9 {
		t.Errorf("%+v, %v", exit, err)
	}
}

func TestCloseLeavesTheCommandRunning(t *testing.T) {
	p := fake.New(fake.Options{})
	sb := launch(t, p, core.Spec{})
	process, err := p.Exec(
		t.Context(), sb.ID,
		core.ExecSpec{Command: []string{"sh", "-c", "while ! test -e /tmp/go; do sleep 0.01; done; exit 8"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Close(); err != nil {
		t.Fatal(err)
	}
	attached, err := p.Attach(t.Context(), sb.ID, process.ID(), core.Streams{})
	if err != nil {
		t.Fatal(err)
	}
	run(t, p, sb.ID, "touch /tmp/go")
	if exit, err := attached.Wait(t.Context()); err != nil || exit.Code != 8 {
		t.Errorf("%+v, %v", exit, err)
	}
}

func TestTypingIntoADetachedTerminal(t *testing.T) {
	p := fake.New(fake.Options{})
	sb := launch(t, p, core.Spec{})
	process, err := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"sh"}, TTY: true, Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	attached, err := p.Attach(
		t.Context(), sb.ID, process.ID(), core.Streams{Stdin: strings.NewReader("X=5\recho x$X\r\x04")},
	)
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := attached.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	var screen strings.Builder
	for record, err := range p.Logs(t.Context(), sb.ID, core.LogOptions{Exec: process.ID(), Tail: -1}) {
		if err != nil {
			t.Fatal(err)
		}
		screen.Write(record.Data)
	}
	if !strings.Contains(screen.String(), "echo x$X\r\n") || !strings.Contains(screen.String(), "x5\r\n") {
		t.Errorf("the screen is %q", screen.String())
	}
}

func TestImportThroughALinkThatLeadsOut(t *testing.T) {
	p := fake.New(fake.Options{})
	sb := launch(t, p, core.Spec{})
	run(
		t, p, sb.ID,
		"mkdir /tmp/in /tmp/out; ln -s /tmp/out /tmp/in/door; echo mine > /tmp/out/file; ln -s /tmp/out/file /tmp/in/file",
	)
	write := func(name string) error {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		if err := errors.Join(
			w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600}), w.Close(),
		); err != nil {
			t.Fatal(err)
		}
		return p.Import(t.Context(), sb.ID, "/tmp/in", &archive, core.ImportOptions{})
	}
	if err := write("door/file"); !errors.Is(err, core.KindUsage) {
		t.Errorf("through the door: %v", err)
	}
	if err := write("file"); err != nil {
		t.Errorf("in place of a link: %v", err)
	}
	if out, _ := run(t, p, sb.ID, "cat /tmp/out/file"); out != "mine\n" {
		t.Errorf("outside there is %q now", out)
	}
}

func TestCrash(t *testing.T) {
	p := fake.New(fake.Options{})
	sb := launch(t, p, core.Spec{Persist: true})
	run(t, p, sb.ID, "echo saved > /root/file")
	if err := p.Lose(sb.ID); err != nil {
		t.Fatal(err)
	}
	lost, err := p.Get(t.Context(), sb.ID)
	if err != nil || lost.State != core.StateLost || lost.Reason != core.ReasonSupervisor {
		t.Errorf("%+v, %v", lost, err)
	}
	if _, err := p.Start(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if out, _ := run(t, p, sb.ID, "cat /root/file"); out != "saved\n" {
		t.Errorf("after the crash the file holds %q", out)
	}
}

// A thousand sandboxes are cheap enough for tests of lists and dashboards.
func BenchmarkLaunch1000(b *testing.B) {
	for b.Loop() {
		p := fake.New(fake.Options{})
		for i := range 1000 {
			if _, err := p.Launch(b.Context(), core.Spec{Name: fmt.Sprint("n", i)}, core.Lease{}, nil); err != nil {
				b.Fatal(err)
			}
		}
		p.Shutdown()
	}
}
