package providertest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// endAfter terminates a sandbox at the end of the test.
func endAfter(t *testing.T, p core.Provider, id string) {
	t.Helper()
	t.Cleanup(func() {
		if err := p.Terminate(context.WithoutCancel(t.Context()), id); err != nil && !errors.Is(err, core.KindNotFound) {
			t.Errorf("terminating: %v", err)
		}
	})
}

// fork checks the common features of forks. The provider's own tests check that processes continue: not every provider
// forks them.
func (s *suite) fork(t *testing.T) {
	p := s.provider(t)
	forker, ok := optional[core.Forker](t, p)
	if !ok {
		return
	}
	source := launch(t, p, func(spec *core.Spec) {
		spec.Env = map[string]string{"COLOR": "blue"}
		spec.Secrets = []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("s3cret")}}
	})
	if r := sh(t, p, source.ID, "echo before > /root/file; rm -f /usr/bin/yes"); r.exit.Code != 0 {
		t.Fatalf("%+v", r)
	}
	lease := core.Lease{Owner: core.CurrentOwner("suite"), Created: time.Now()}
	spec := core.ForkSpec{
		Name: core.NewName(), Labels: map[string]string{"kind": "fork"}, Timeout: core.Duration(time.Hour),
	}
	fork, err := forker.Fork(t.Context(), source.ID, spec, lease)
	if err != nil {
		t.Fatal(err)
	}
	endAfter(t, p, fork.ID)
	if fork.ID == source.ID || fork.Name != spec.Name || fork.State != core.StateRunning || fork.App != source.App ||
		fork.Labels["kind"] != "fork" || fork.Lease.Owner != lease.Owner || time.Until(fork.Expires) < 50*time.Minute {
		t.Errorf("forked %+v", fork)
	}
	if !fork.Spec.Secrets[0].Value.Empty() {
		t.Error("the fork's spec holds a secret")
	}
	if r := sh(
		t, p, fork.ID, "cat /root/file; ls /usr/bin/yes 2>/dev/null || echo gone; echo $COLOR $TOKEN",
	); r.out != "before\ngone\nblue s3cret\n" {
		t.Errorf("in the fork: %+v", r)
	}
	sh(t, p, fork.ID, "echo fork > /root/file")
	sh(t, p, source.ID, "echo source > /root/other")
	if r := sh(t, p, source.ID, "cat /root/file"); r.out != "before\n" {
		t.Errorf("the source sees a write of the fork: %+v", r)
	}
	if r := sh(t, p, fork.ID, "cat /root/file; cat /root/other 2>/dev/null || echo apart"); r.out != "fork\napart\n" {
		t.Errorf("the fork sees a write of the source: %+v", r)
	}
	_, err = forker.Fork(t.Context(), source.ID, spec, lease)
	wantKind(t, err, core.KindConflict)
	_, err = forker.Fork(t.Context(), "no-such-id", core.ForkSpec{Name: core.NewName()}, lease)
	wantKind(t, err, core.KindNotFound)
	if err := p.Terminate(t.Context(), source.ID); err != nil {
		t.Fatal(err)
	}
	if r := sh(t, p, fork.ID, "cat /root/file"); r.out != "fork\n" {
		t.Errorf("the fork after its source's end: %+v", r)
	}
	if pauser, ok := p.(core.Pauser); ok {
		if err := pauser.Pause(t.Context(), fork.ID); err != nil {
			t.Fatal(err)
		}
		_, err = forker.Fork(t.Context(), fork.ID, core.ForkSpec{Name: core.NewName()}, lease)
		wantKind(t, err, core.KindConflict)
	}
}

func (s *suite) checkpoints(t *testing.T) {
	p := s.provider(t)
	checkpointer, ok := optional[core.Checkpointer](t, p)
	if !ok {
		return
	}
	// Modal needs the option at the launch, keeps the secrets of the launch, and does not report sizes.
	elsewhere, token := p.Capabilities().Can(core.CapModal), ""
	source := launch(t, p, func(spec *core.Spec) {
		spec.Secrets = []core.Secret{{Name: "TOKEN", Value: core.NewSecretValue("s3cret")}}
		if elsewhere {
			spec.Modal, token = []byte(`{"memory_snapshot": true}`), "s3cret"
		}
	})
	sh(t, p, source.ID, "echo kept > /root/file")
	name := core.NewName()
	made, err := checkpointer.Checkpoint(t.Context(), source.ID, name)
	if err != nil {
		t.Fatal(err)
	}
	removed := false
	t.Cleanup(func() {
		if err := checkpointer.RemoveCheckpoint(context.WithoutCancel(t.Context()), name); err != nil && !removed {
			t.Errorf("removing the checkpoint: %v", err)
		}
	})
	if made.Name != name || made.Provider != p.Name() || made.Sandbox != source.ID || made.Of != source.Name ||
		(made.Size <= 0) != elsewhere || made.Created.IsZero() {
		t.Errorf("made %+v", made)
	}
	_, err = checkpointer.Checkpoint(t.Context(), source.ID, name)
	wantKind(t, err, core.KindConflict)
	sh(t, p, source.ID, "echo later > /root/file")
	if err := p.Terminate(t.Context(), source.ID); err != nil {
		t.Fatal(err)
	}
	list, err := checkpointer.Checkpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list, func(c core.Checkpoint) bool { return c.Name == name })
	if at < 0 || !list[at].Created.Equal(made.Created) || list[at].Size != made.Size || list[at].Of != source.Name {
		t.Fatalf("listed %+v", list)
	}
	for range 2 {
		sb := launch(t, p, func(spec *core.Spec) {
			kept := list[at].Spec
			spec.Image, spec.Checkpoint = "", name
			spec.Disk, spec.Processes, spec.OpenFiles, spec.Memory = kept.Disk, kept.Processes, kept.OpenFiles, kept.Memory
		})
		if r := sh(t, p, sb.ID, "cat /root/file; echo \"[$TOKEN]\"; echo mine > /root/file"); r.out != "kept\n["+token+"]\n" {
			t.Errorf("from the checkpoint: %+v", r)
		}
	}
	if err := checkpointer.RemoveCheckpoint(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	removed = true
	wantKind(t, checkpointer.RemoveCheckpoint(t.Context(), name), core.KindNotFound)
	_, err = p.Launch(
		t.Context(), core.Spec{Name: core.NewName(), Checkpoint: name},
		core.Lease{Owner: core.CurrentOwner("suite"), Created: time.Now()}, nil,
	)
	wantKind(t, err, core.KindNotFound)
	_, err = checkpointer.Checkpoint(t.Context(), source.ID, core.NewName())
	wantKind(t, err, core.KindNotFound)
}

// denials checks only that a sandbox without connections has no denials. Other denials depend on the programs of an
// image.
func (s *suite) denials(t *testing.T) {
	p := s.provider(t)
	reader, ok := optional[core.DenialReader](t, p)
	if !ok {
		return
	}
	sb := launch(t, p, nil)
	if denials, err := reader.Denials(t.Context(), sb.ID); err != nil || len(denials) != 0 {
		t.Errorf("%+v, %v", denials, err)
	}
	_, err := reader.Denials(t.Context(), "no-such-id")
	wantKind(t, err, core.KindNotFound)
}
