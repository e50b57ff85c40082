package providertest

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// imageSettings checks which settings of an image apply to a sandbox. The test image of Docker has the entrypoint
// /bin/false, arguments for it, the stop signal SIGUSR1, a port and a label. Other images are skipped.
func (s *suite) imageSettings(t *testing.T) {
	p := s.provider(t)
	sb := launch(t, p, nil)
	if r := sh(t, p, sb.ID, `echo "$FROM_IMAGE"`); r.out != "yes\n" {
		return
	}
	// Its entrypoint would have ended the sandbox.
	got, err := p.Get(t.Context(), sb.ID)
	local := strings.HasPrefix(got.ID, "loc-")
	if !strings.HasPrefix(got.ImageID, "sha256:") || local != (got.RootFormat == "erofs") {
		t.Errorf("the image has the id %q and the format %q", got.ImageID, got.RootFormat)
	}
	if err != nil || got.State != core.StateRunning || got.ExitCode != nil || len(got.Labels) > 0 || len(got.Ports) > 0 {
		t.Errorf("without a command: %+v, %v", got, err)
	}
	if waiter, ok := optional[core.Waiter](t, p); ok {
		entry := launch(t, p, func(spec *core.Spec) { spec.Command = []string{"sh", "-c", "exit 7"} })
		ended, err := waiter.WaitSandbox(Patient(t), entry.ID)
		if err != nil || ended.ExitCode == nil || *ended.ExitCode != 7 {
			t.Errorf("a command without the entrypoint: %+v, %v", ended, err)
		}
	}
	stopper, ok := optional[core.Stopper](t, p)
	if !ok {
		return
	}
	s.stopSignals(t, p, stopper)
}

// trapping is a command that writes the names of its signals to /root/signals.
const trapping = "trap 'echo usr1 >> /root/signals; exit' USR1; trap 'echo term >> /root/signals; exit' TERM; " +
	"touch /root/ready; while :; do sleep 0.05; done"

// stopSignals stops sandboxes with and without an entry command. Only the entry command belongs to the image.
func (s *suite) stopSignals(t *testing.T, p core.Provider, stopper core.Stopper) {
	t.Helper()
	signals := func(id string) string {
		t.Helper()
		eventually(t, "the command waits for a signal", func() bool {
			return sh(t, p, id, "test -e /root/ready").exit.Code == 0
		})
		if err := stopper.Stop(t.Context(), id, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := stopper.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return sh(t, p, id, "cat /root/signals").out
	}
	entry := launch(t, p, func(spec *core.Spec) { spec.Persist, spec.Command = true, []string{"sh", "-c", trapping} })
	if got := signals(entry.ID); got != "usr1\n" {
		t.Errorf("the entry command got the signals %q", got)
	}
	plain := launch(t, p, func(spec *core.Spec) { spec.Persist = true })
	begin(t, p, plain.ID, core.ExecSpec{Command: []string{"sh", "-c", trapping}})
	if got := signals(plain.ID); got != "term\n" {
		t.Errorf("a command of a sandbox without an entry command got the signals %q", got)
	}
	snapshotter, ok := optional[core.Snapshotter](t, p)
	if !ok {
		return
	}
	made, err := snapshotter.Snapshot(t.Context(), plain.ID, core.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if store, ok := optional[core.SnapshotStore](t, p); ok {
		defer func() {
			if err := store.RemoveSnapshot(t.Context(), made.ID); err != nil {
				t.Error(err)
			}
		}()
	}
	copied := launch(t, p, func(spec *core.Spec) {
		spec.Image, spec.Snapshot, spec.Persist = "", made.ID, true
		const once = "test -e /root/copied || rm /root/signals /root/ready; touch /root/copied; "
		spec.Command = []string{"sh", "-c", once + trapping}
	})
	eventually(t, "the entry command starts", func() bool {
		return sh(t, p, copied.ID, "test -e /root/copied").exit.Code == 0
	})
	if got := signals(copied.ID); got != "usr1\n" {
		t.Errorf("from the snapshot, the entry command got the signals %q", got)
	}
	if err := p.Terminate(t.Context(), copied.ID); err != nil {
		t.Error(err)
	}
}
