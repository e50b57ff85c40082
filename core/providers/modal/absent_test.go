//go:build linux

package modal_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providers/modal/modaltest"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/core/service"
)

// Operations on other providers make no calls to a Modal that never answers.
func TestNoModalCallsForOtherProviders(t *testing.T) {
	r := newRig(t, nil)
	r.faults.SetLatency(time.Hour)
	r.server.ResetCalls()
	elsewhere := fake.NewKeeper(fake.Options{}, fake.KeeperOptions{})
	defer elsewhere.Shutdown()
	svc := service.New(service.Options{Factories: []core.Factory{
		{Name: elsewhere.Name(), IDPrefix: "fak-", Open: func() (core.Provider, error) {
			return elsewhere, nil
		}}, modal.Factory(r.opts),
	}})
	ctx := t.Context()
	sb, err := svc.Sandboxes.Launch(ctx, core.Spec{Name: "here"}, service.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"here", sb.ID, sb.ID[:len(sb.ID)-2]} {
		process, err := svc.Execs.Start(ctx, ref, core.ExecSpec{Command: []string{"true"}})
		if err != nil {
			t.Fatalf("%s: %v", ref, err)
		}
		_ = process.Close()
	}
	if _, err := svc.Sandboxes.List(ctx, core.ListFilter{Provider: elsewhere.Name()}); err != nil {
		t.Error(err)
	}
	if calls := r.server.Calls(); len(calls) > 0 {
		t.Errorf("Modal was asked %v", calls)
	}

	volumes := make(chan service.Inventory[core.VolumeInfo], 1)
	go func() {
		all, err := svc.Stores.Volumes(ctx, "")
		if err != nil {
			t.Error(err)
		}
		volumes <- all
	}()

	// A list of all providers returns the local sandboxes at once. Later it reports that Modal does not answer.
	first, rest, err := svc.Sandboxes.ListSoon(ctx, core.ListFilter{}, 50*time.Millisecond)
	if err != nil || len(first.Sandboxes) != 1 || len(first.Failures) != 0 {
		t.Errorf("at first: %+v, %v", first, err)
	}
	if late := rest(); len(late.Sandboxes) != 0 || len(late.Failures) != 1 || late.Failures[0].Provider != modal.Name ||
		!strings.Contains(late.Failures[0].Hint, "--provider modal") {
		t.Errorf("then: %+v", late)
	}
	if all := providertest.Receive(t, volumes); len(all.Failures) != 1 || all.Failures[0].Provider != modal.Name {
		t.Errorf("of the volumes: %+v", all)
	}
	if err := errors.Join(svc.Sandboxes.Terminate(ctx, "here"), svc.Close()); err != nil {
		t.Error(err)
	}
}

// List returns all sandboxes even if Modal's pages are small.
func TestListHasAllPages(t *testing.T) {
	r := newRig(t, func(o *modaltest.Options) { o.Page = 2 })
	p := modal.New(r.opts)
	defer func() { _ = p.Close() }()
	first := launched(t, p, spec())
	for range 4 {
		launched(t, p, spec())
	}
	for _, filter := range []core.ListFilter{{}, {All: true}} {
		if found, err := p.ListFiltered(t.Context(), filter); err != nil || len(found) != 5 {
			t.Errorf("%+v lists %d of 5, %v", filter, len(found), err)
		}
	}
	r.opts.CacheDir = t.TempDir()
	other := modal.New(r.opts)
	defer func() { _ = other.Close() }()
	if found, err := other.FindName(t.Context(), first.Name); err != nil || found.ID != first.ID {
		t.Errorf("the oldest is %+v, %v", found, err)
	}
}

// ListFiltered filters by app, by labels with and without values, and by live state.
func TestListAsksForLess(t *testing.T) {
	p := modal.New(newRig(t, nil).opts)
	defer func() { _ = p.Close() }()
	s := spec()
	s.Name, s.Labels = "one", map[string]string{"team": "a", "kind": "x"}
	one := launched(t, p, s)
	s.Name, s.Labels = "two", map[string]string{"team": "b"}
	launched(t, p, s)
	s.Name, s.App, s.Labels, s.Command = "three", "others", nil, []string{"true"}
	if _, err := p.WaitSandbox(providertest.Patient(t), launched(t, p, s).ID); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		filter core.ListFilter
		want   string
	}{
		{core.ListFilter{All: true}, "one three two"},
		{core.ListFilter{}, "one two"},
		{core.ListFilter{All: true, App: "others"}, "three"},
		{core.ListFilter{App: "none"}, ""},
		{core.ListFilter{Labels: map[string]string{"team": "a", "kind": ""}}, "one"},
		{core.ListFilter{Labels: map[string]string{"team": "b", "kind": "x"}}, ""},
	} {
		found, err := p.ListFiltered(t.Context(), test.filter)
		var names []string
		for _, sb := range found {
			names = append(names, sb.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); err != nil || got != test.want {
			t.Errorf("%+v: %q, %v; want %q", test.filter, got, err, test.want)
		}
	}
	if sb, err := p.Get(t.Context(), one.ID); err != nil || sb.Labels["team"] != "a" {
		t.Errorf("%+v, %v", sb, err)
	}
}
