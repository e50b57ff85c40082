//go:build linux

package modal_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/programtest"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
	"github.com/seed-0724f904/sb/core/providertest"
)

// Each operation reports that a sandbox has exited since the last call. Exec also reports it when the sandbox's machine
// no longer answers.
func TestOperationsOnEndedSandbox(t *testing.T) {
	programtest.Long(t)
	r := newRig(t, nil)
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	s := spec()
	s.Command = []string{"sh", "-c", "while ! test -e /tmp/go; do sleep 0.05; done"}
	s.Modal = modalspec.Section{MemorySnapshot: true}.JSON()
	sb := launched(t, p, s)
	finish(t, p, sb.ID, "/tmp/go")
	if _, err := p.WaitSandbox(providertest.Patient(t), sb.ID); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	exec := func() error { return second(p.Exec(ctx, sb.ID, core.ExecSpec{Command: []string{"true"}})) }
	checkEnded := func(name string, err error) {
		if !errors.Is(err, core.KindConflict) || !strings.Contains(err.Error(), "exited") {
			t.Errorf("%s: %v (%v)", name, err, core.KindOf(err))
		}
	}
	for name, do := range map[string]func() error{
		"exec": exec,
		"stat": func() error { return second(p.Stat(ctx, sb.ID, "/tmp")) },
		"write": func() error {
			return p.WriteFile(ctx, sb.ID, "/tmp/f", strings.NewReader("x"), core.WriteOptions{})
		},
		"export":             func() error { return readAll(p.Export(ctx, sb.ID, "/tmp")) },
		"snapshot":           func() error { return second(p.Snapshot(ctx, sb.ID, core.SnapshotOptions{})) },
		"snapshot of a path": func() error { return second(p.Snapshot(ctx, sb.ID, core.SnapshotOptions{Path: "/tmp"})) },
		"checkpoint":         func() error { return second(p.Checkpoint(ctx, sb.ID, "kept")) },
		"mount":              func() error { return p.MountImage(ctx, sb.ID, "im-none", "/mnt") },
		"unmount":            func() error { return p.UnmountImage(ctx, sb.ID, "/mnt") },
		"policy":             func() error { return second(p.SetNetwork(ctx, sb.ID, core.Network{Mode: core.NetworkNone})) },
		"readiness":          func() error { return p.WaitReady(ctx, sb.ID) },
		"connect token":      func() error { return second(p.ConnectToken(ctx, sb.ID, core.ConnectOptions{})) },
	} {
		checkEnded(name, do())
	}
	for range 9 {
		r.faults.Plan("TaskExecStart", modaltest.Fault{Code: codes.Unavailable, Message: "no route to host"})
	}
	checkEnded("exec without its machine", exec())
}

// A detached command has no input, keeps its output for later readers, and keeps running after its starter is gone.
func TestDetachedCommand(t *testing.T) {
	r := newRig(t, nil)
	first := modal.New(r.opts)
	sb := launched(t, first, spec())
	process, err := first.Exec(
		t.Context(), sb.ID,
		core.ExecSpec{Command: []string{"sh", "-c", "cat; echo out; echo err >&2; touch /tmp/over"}, Detach: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(process.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	eventually(t, func() bool { _, err := p.Stat(t.Context(), sb.ID, "/tmp/over"); return err == nil })
	if text, records := logged(t, p, sb.ID, core.LogOptions{Exec: process.ID(), Tail: -1}); len(records) != 2 ||
		!strings.Contains(text, "out\n") || !strings.Contains(text, "err\n") {
		t.Errorf("its log is %q", text)
	}
}

// A secret that another client removed and created again has another id than the one in the cache.
func TestExecSecretIsRecreated(t *testing.T) {
	r := newRig(t, nil)
	here := modal.New(r.opts)
	defer func() { _ = here.Close() }()
	opts := r.opts
	opts.CacheDir = t.TempDir()
	elsewhere := modal.New(opts)
	defer func() { _ = elsewhere.Close() }()
	sb := launched(t, here, spec())
	with := func(p core.Provider) string {
		t.Helper()
		var out strings.Builder
		spec := core.ExecSpec{
			Command: []string{"sh", "-c", "echo $TOKEN"}, Secrets: []core.Secret{{Name: "TOKEN", Ref: "shared"}}, Stdout: &out,
		}
		if exit := ran(t, p, sb.ID, spec); exit.Code != 0 {
			t.Errorf("%+v", exit)
		}
		return out.String()
	}
	for _, value := range []string{"one", "two"} {
		made := map[string]core.SecretValue{"TOKEN": core.NewSecretValue(value)}
		if _, err := elsewhere.CreateSecret(t.Context(), "shared", made, core.SecretOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := with(here); got != value+"\n" {
			t.Errorf("the command has %q, not %s", got, value)
		}
		if err := elsewhere.RemoveSecret(t.Context(), "shared"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := here.Exec(
		t.Context(), sb.ID,
		core.ExecSpec{Command: []string{"true"}, Secrets: []core.Secret{{Ref: "shared"}}, Stdout: io.Discard},
	)
	if !errors.Is(err, core.KindNotFound) || !strings.Contains(err.Error(), "shared") {
		t.Errorf("without the secret: %v", err)
	}
}
