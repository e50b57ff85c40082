//go:build linux

package modal_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modalspec"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
	"github.com/seed-0724f904/sb/core/service"
)

// counted returns the last number of the entry command.
func counted(t *testing.T, p *modal.Provider, id string) int {
	t.Helper()
	var out strings.Builder
	ran(t, p, id, core.ExecSpec{Command: []string{"cat", "/tmp/number"}, Stdout: &out})
	n, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		return 0
	}
	return n
}

// A process continues to count in a sandbox that is launched from a checkpoint, by its name or by Modal's id.
func TestLaunchFromCheckpointResumesProcess(t *testing.T) {
	r := newRig(t, nil)
	p := modal.New(r.opts)
	svc := service.New(service.Options{
		// defaults do not apply to a launch from a checkpoint
		Defaults: core.Spec{
			App: "usual", Network: core.Network{Mode: core.NetworkAll}, Memory: core.GiB, Timeout: core.Duration(time.Hour),
		},
		Factories: []core.Factory{{Name: p.Name(), IDPrefix: modal.IDPrefix, Open: func() (core.Provider, error) {
			return p, nil
		}}},
	})
	defer func() { _ = svc.Close() }()
	ctx := t.Context()
	s := spec()
	s.Name, s.Env, s.Labels, s.Modal = "counter", map[string]string{"COLOR": "blue"}, map[string]string{
		"team": "a",
	}, modalspec.Section{
		MemorySnapshot: true,
	}.JSON()
	s.Command = []string{"sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; echo $i >/tmp/number; sleep 0.05; done"}
	sb, err := svc.Sandboxes.Launch(ctx, s, service.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return counted(t, p, sb.ID) > 3 })
	// A retry after a lost answer makes no second snapshot.
	r.faults.Plan("TaskSnapshotMemory", modaltest.Fault{Code: codes.Unavailable, After: true})
	made, err := svc.Sandboxes.Checkpoint(ctx, "counter", "warm")
	if err != nil || !strings.HasPrefix(made.ID, "sn-") || time.Until(made.Expires) < 6*24*time.Hour {
		t.Fatalf("%+v, %v", made, err)
	}
	if checkpointer, ok := r.backend.(core.Checkpointer); !ok {
		t.Fatal("the backend keeps none")
	} else if all, err := checkpointer.Checkpoints(ctx); err != nil || len(all) != 1 {
		t.Errorf("the backend keeps %+v, %v", all, err)
	}
	before := counted(t, p, sb.ID)
	if err := svc.Sandboxes.Terminate(ctx, "counter"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"warm", made.ID} {
		again, err := svc.Sandboxes.Launch(
			ctx, core.Spec{Name: core.NewName(), Checkpoint: name, Labels: map[string]string{"turn": "2"}},
			service.LaunchOptions{},
		)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return counted(t, p, again.ID) > before })
		// Its output begins where it resumed. While the process keeps writing, Logs returns the output so far.
		if text, _ := logged(t, p, again.ID, core.LogOptions{Tail: -1}); strings.HasPrefix(text, "1\n") {
			t.Errorf("%s: the process started over: %q", name, text)
		}
		found, err := svc.Sandboxes.Resolve(ctx, again.Name)
		if err != nil || found.ID != again.ID || found.Labels["turn"] != "2" || found.Spec.Checkpoint != name {
			t.Errorf("%s: found %+v, %v", name, found, err)
		}
		if name == "warm" && (found.Labels["team"] != "a" || found.Spec.Env["COLOR"] != "blue" ||
			time.Until(found.Expires) > 10*time.Minute) {
			t.Errorf("%s: it is %+v", name, found)
		}
		if _, err := p.Checkpoint(ctx, again.ID, "again-"+again.Name); err != nil {
			t.Errorf("%s: no checkpoint of a restored sandbox: %v", name, err)
		}
	}
	for _, refused := range []core.Spec{
		{Checkpoint: "warm", CPU: 2},
		{Checkpoint: "warm", Env: map[string]string{"COLOR": "red"}},
		{Checkpoint: made.ID, CPU: 2},
	} {
		if _, err := svc.Sandboxes.Launch(ctx, refused, service.LaunchOptions{}); !errors.Is(err, core.KindUnsupported) {
			t.Errorf("%+v: %v", refused, err)
		}
	}
	plain := launched(t, p, spec())
	if _, err := p.Checkpoint(ctx, plain.ID, "plain"); !errors.Is(err, core.KindConflict) ||
		!strings.Contains(core.HintOf(err), "memory_snapshot=true") {
		t.Errorf("one that was not launched for it: %v", err)
	}

	// RemoveCheckpoint removes only the local name of a checkpoint; Modal still has the snapshot.
	if err := p.RemoveCheckpoint(ctx, made.ID); !errors.Is(err, core.KindUnsupported) {
		t.Errorf("removing by Modal's id: %v", err)
	}
	if err := svc.Stores.RemoveCheckpoint(ctx, "", "warm"); err != nil {
		t.Error(err)
	}
	if _, err := svc.Sandboxes.Launch(ctx, core.Spec{Checkpoint: "warm"}, service.LaunchOptions{}); !errors.Is(
		err, core.KindNotFound,
	) {
		t.Errorf("a forgotten checkpoint: %v", err)
	}
	if _, err := p.FindCheckpoint(ctx, made.ID); err != nil {
		t.Errorf("by its id: %v", err)
	}
	if _, err := p.FindCheckpoint(ctx, "sn-01ARZ3NDEKTSV4RRFFQ69G5FAV"); !errors.Is(err, core.KindNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
}
