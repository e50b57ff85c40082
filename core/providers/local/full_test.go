//go:build linux

package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-0724f904/sb/core"
)

// On a full disk a sandbox keeps running, and operations that cannot store anything return the reason.
func TestFullDisk(t *testing.T) {
	onDisk(t, "tmpfs", "size=12m", onFullDisk)
}

func onFullDisk(t *testing.T, dir string) {
	t.Helper()
	p, ok := opener(t, func(o *Options) { o.StateDir = dir })(t).(*Provider)
	if !ok {
		t.Fatal("not the local provider")
	}
	sb := launched(t, p, func(spec *core.Spec) { spec.Persist = true })
	output(t, p, sb.ID, "echo kept > /root/file")
	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 64<<10))
	}
	_ = f.Close()
	_, execErr := p.Exec(t.Context(), sb.ID, core.ExecSpec{Command: []string{"true"}})
	_, checkpointErr := p.Checkpoint(t.Context(), sb.ID, "kept")
	_, snapshotErr := p.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "kept"})
	_, forkErr := p.Fork(t.Context(), sb.ID, core.ForkSpec{Name: core.NewName()}, core.Lease{})
	_, policyErr := p.SetNetwork(t.Context(), sb.ID, core.Network{Mode: core.NetworkAll})
	for what, err := range map[string]error{
		"exec": execErr, "checkpoint": checkpointErr, "snapshot": snapshotErr, "fork": forkErr, "policy": policyErr,
		"stop": p.Stop(t.Context(), sb.ID, time.Second),
	} {
		if !errors.Is(err, core.KindExhausted) || core.HintOf(err) == "" ||
			!strings.Contains(err.Error(), unix.ENOSPC.Error()) {
			t.Errorf("%s: %v (%s)", what, err, core.HintOf(err))
		}
		if err != nil && strings.Contains(err.Error(), "the sandbox could not be started") {
			t.Errorf("%s says of itself: %v", what, err)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Get(t.Context(), sb.ID); err != nil || got.State != core.StateRunning ||
		got.Spec.Network.Mode != core.NetworkNone {
		t.Errorf("it is %+v, %v", got, err)
	}
	if err := p.Stop(t.Context(), sb.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Start(t.Context(), sb.ID); err != nil {
		t.Fatal(err)
	}
	if text := output(t, p, sb.ID, "cat /root/file"); text != "kept\n" {
		t.Errorf("it kept %q", text)
	}
}
