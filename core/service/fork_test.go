package service_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
)

// forking returns a service over a fake provider with one running sandbox "src".
func forking(t *testing.T, change func(*service.Options)) (*service.Service, *fake.Provider) {
	t.Helper()
	p := fake.New(fake.Options{})
	t.Cleanup(p.Shutdown)
	opts := service.Options{Factories: []core.Factory{p.Factory()}, Actor: "test", StateDir: t.TempDir()}
	if change != nil {
		change(&opts)
	}
	s := service.New(opts)
	t.Cleanup(func() { _ = s.Close() })
	spec := core.Spec{
		Provider: "fake", Name: "src", Labels: map[string]string{"team": "a"}, Timeout: core.Duration(time.Hour),
		Env: map[string]string{"A": "1"},
	}
	if _, err := s.Sandboxes.Launch(t.Context(), spec, service.LaunchOptions{}); err != nil {
		t.Fatal(err)
	}
	return s, p
}

func TestForkIsRecordedAndHasItsOwnLease(t *testing.T) {
	s, _ := forking(t, nil)
	fork, err := s.Sandboxes.Fork(t.Context(), "src", service.ForkOptions{Name: "copy", Bound: true})
	if err != nil {
		t.Fatal(err)
	}
	if fork.Name != "copy" || !fork.Lease.Bound || fork.Labels["team"] != "a" ||
		time.Until(fork.Lease.Expires) < 50*time.Minute {
		t.Errorf("%+v", fork)
	}
	made, err := s.Sandboxes.Fork(t.Context(), "src", service.ForkOptions{})
	if err != nil || made.Name == "" || made.Name == "src" {
		t.Errorf("without a name: %+v, %v", made, err)
	}
	for name, kind := range map[string]core.Kind{
		"copy": core.KindConflict, "fak-abc": core.KindUsage, "No Name": core.KindUsage,
	} {
		if _, err := s.Sandboxes.Fork(t.Context(), "src", service.ForkOptions{Name: name}); !errors.Is(err, kind) {
			t.Errorf("named %q: %v", name, err)
		}
	}
	var last service.AuditRecord
	for record, err := range s.Records.History(t.Context(), service.HistoryFilter{Op: "fork"}) {
		if err != nil {
			t.Fatal(err)
		}
		if record.Result == "ok" {
			last = record
		}
	}
	if last.Name != "src" || last.Args["fork"] != made.ID || last.Args["name"] != made.Name {
		t.Errorf("recorded %+v", last)
	}
}

func TestForkIsBoundByQuotaAndScope(t *testing.T) {
	s, p := forking(t, func(opts *service.Options) { opts.Quotas.MaxSandboxes = 2 })
	if _, err := s.Sandboxes.Fork(t.Context(), "src", service.ForkOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sandboxes.Fork(t.Context(), "src", service.ForkOptions{}); !errors.Is(err, core.KindExhausted) {
		t.Errorf("over the quota: %v", err)
	}
	if all, err := p.List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("%d sandboxes, %v", len(all), err)
	}
	stranger := s.Within(service.Scope{Labels: map[string]string{"team": "b"}})
	if _, err := stranger.Sandboxes.Fork(t.Context(), "src", service.ForkOptions{}); !errors.Is(err, core.KindNotFound) {
		t.Errorf("out of scope: %v", err)
	}
}

// A launch from a checkpoint goes to the provider that has it, and Explain reports that in advance.
func TestExplainALaunchFromACheckpoint(t *testing.T) {
	first := fake.New(fake.Options{Name: "first", IDPrefix: "fir-"})
	t.Cleanup(first.Shutdown)
	s, _ := forking(t, func(opts *service.Options) {
		opts.Factories = append([]core.Factory{first.Factory()}, opts.Factories...)
	})
	made, err := s.Sandboxes.Checkpoint(t.Context(), "fake/src", "")
	if err != nil {
		t.Fatal(err)
	}
	if placement, err := s.Sandboxes.Explain(t.Context(), core.Spec{Checkpoint: made.Name}); err != nil ||
		placement.Chosen != "fake" {
		t.Errorf("%+v, %v", placement, err)
	}
	if _, err := s.Sandboxes.Explain(t.Context(), core.Spec{Checkpoint: made.Name +
		"x"}); !errors.Is(err, core.KindNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
}

func TestCheckpointAndLaunchFromIt(t *testing.T) {
	s, _ := forking(t, nil)
	made, err := s.Sandboxes.Checkpoint(t.Context(), "src", "")
	if err != nil {
		t.Fatal(err)
	}
	sb, err := s.Sandboxes.Launch(t.Context(), core.Spec{Name: "again", Checkpoint: "fake/" +
		made.Name, Env: map[string]string{"B": "2"}}, service.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if sb.Spec.Env["A"] != "1" || sb.Spec.Env["B"] != "2" || sb.Labels["team"] != "a" ||
		sb.Spec.Timeout != core.Duration(time.Hour) || sb.Spec.Checkpoint != made.Name {
		t.Errorf("launched %+v", sb.Spec)
	}
	for _, spec := range []core.Spec{
		{Disk: core.GiB}, {Command: []string{"true"}}, {Image: "host"}, {Pip: []string{"x"}},
	} {
		spec.Checkpoint = made.Name
		if _, err := s.Sandboxes.Launch(t.Context(), spec, service.LaunchOptions{}); !errors.Is(err, core.KindUsage) {
			t.Errorf("with %+v: %v", spec, err)
		}
	}
	_, err = s.Sandboxes.Launch(t.Context(), core.Spec{Checkpoint: made.Name + "x"}, service.LaunchOptions{})
	if !errors.Is(err, core.KindNotFound) || core.HintOf(err) == "" {
		t.Errorf("one that is not there: %v (%s)", err, core.HintOf(err))
	}
	stranger := s.Within(service.Scope{Labels: map[string]string{"team": "b"}})
	if listing, err := stranger.Stores.Checkpoints(t.Context(), ""); err != nil || len(listing.Items) != 0 {
		t.Errorf("out of scope: %+v, %v", listing, err)
	}
	if err := stranger.Stores.RemoveCheckpoint(t.Context(), "", made.Name); !errors.Is(err, core.KindNotFound) {
		t.Errorf("out of scope: %v", err)
	}
	confined := s.Within(service.Scope{Policy: service.LaunchPolicy{Images: []string{"host"}}})
	if _, err := confined.Sandboxes.Launch(
		t.Context(), core.Spec{Checkpoint: made.Name}, service.LaunchOptions{},
	); !errors.Is(err, core.KindUnauthorized) {
		t.Errorf("past the allowed images: %v", err)
	}
	report, err := s.Prune(t.Context(), service.PruneOptions{Checkpoints: true, OlderThan: time.Hour})
	if err != nil || len(report.Checkpoints) != 0 {
		t.Errorf("pruned one that is young: %+v, %v", report.Checkpoints, err)
	}
	if report, err = s.Prune(t.Context(), service.PruneOptions{Checkpoints: true}); err != nil ||
		len(report.Checkpoints) != 1 {
		t.Errorf("pruned %+v, %v", report.Checkpoints, err)
	}
	if err := s.Stores.RemoveCheckpoint(t.Context(), "", made.Name); !errors.Is(err, core.KindNotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

func TestDenials(t *testing.T) {
	s, p := forking(t, nil)
	sb, err := s.Sandboxes.Resolve(t.Context(), "src")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a.example", "b.example"} {
		if err := p.Deny(sb.ID, core.Denial{Protocol: "dns", Name: name, Count: i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	denials, err := s.Policy.Denials(t.Context(), "src")
	if err != nil || len(denials) != 2 || denials[0].Name != "b.example" {
		t.Errorf("%+v, %v", denials, err)
	}
	if stats, err := s.Sandboxes.Stats(t.Context(), "src"); err != nil || stats.Denied != 3 {
		t.Errorf("%+v, %v", stats, err)
	}
}
