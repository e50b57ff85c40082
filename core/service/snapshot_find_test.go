package service_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
)

// finding is a provider that finds its snapshots directly.
type finding struct {
	*fake.Keeper
	has string
}

func (f finding) HasSnapshot(_ context.Context, id string) (bool, error) { return id == f.has, nil }

func TestSnapshotIsLaunchedWhereItIs(t *testing.T) {
	var factories []core.Factory
	keepers := map[string]*fake.Keeper{}
	for _, name := range []string{"near", "far"} {
		k := fake.NewKeeper(fake.Options{Name: name, IDPrefix: name + "-"}, fake.KeeperOptions{})
		t.Cleanup(k.Shutdown)
		keepers[name] = k
		factory := k.Factory()
		if name == "near" {
			factory.Open = func() (core.Provider, error) { return finding{k, "ours"}, nil }
		}
		factories = append(factories, factory)
	}
	s := service.New(service.Options{Factories: factories, Actor: "test"})
	t.Cleanup(func() { _ = s.Close() })
	for id, want := range map[string]string{"ours": "near", "theirs": "far"} {
		placement, err := s.Sandboxes.Explain(t.Context(), core.Spec{Snapshot: id})
		if err != nil || placement.Chosen != want {
			t.Errorf("%s is launched by %+v, %v", id, placement, err)
		}
	}
	_, err := s.Sandboxes.Launch(t.Context(), core.Spec{Provider: "near", Snapshot: "theirs"}, service.LaunchOptions{})
	if !errors.Is(err, core.KindNotFound) || core.HintOf(err) == "" {
		t.Errorf("from one that is not there: %v (%s)", err, core.HintOf(err))
	}
	if err := s.Stores.RemoveSnapshot(t.Context(), "", "ours"); !errors.Is(err, core.KindNotFound) {
		// near claims the snapshot, but does not have it
		t.Errorf("removing asks another provider: %v", err)
	}
}

// A snapshot is removed at its provider. It needs the provider's name only if several list it.
func TestSnapshotIsRemovedWhereItIs(t *testing.T) {
	var factories []core.Factory
	for _, name := range []string{"near", "far"} {
		k := fake.NewKeeper(fake.Options{Name: name, IDPrefix: name + "-"}, fake.KeeperOptions{})
		t.Cleanup(k.Shutdown)
		factories = append(factories, k.Factory())
	}
	s := service.New(service.Options{Factories: factories, Actor: "test"})
	t.Cleanup(func() { _ = s.Close() })
	sb, err := s.Sandboxes.Launch(t.Context(), core.Spec{Provider: "far"}, service.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.Sandboxes.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stores.RemoveSnapshot(t.Context(), "", made.ID); err != nil {
		t.Error(err)
	}
	if _, err := s.Sandboxes.Snapshot(t.Context(), sb.ID, core.SnapshotOptions{Name: "kept"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Stores.RemoveSnapshot(t.Context(), "", "kept"); err != nil {
		t.Errorf("by its name: %v", err)
	}
	if err := s.Stores.RemoveSnapshot(t.Context(), "", made.ID); !errors.Is(err, core.KindUsage) {
		t.Errorf("one that is not listed: %v", err)
	}
}
