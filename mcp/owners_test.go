package mcp

import (
	"errors"
	"slices"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/service"
	"github.com/seed-0724f904/sb/mcp/setup"
)

// shared is an engine that several owners use.
type shared struct{ *fake.Provider }

func (p shared) Capabilities() core.Capabilities {
	caps := p.Provider.Capabilities()
	caps.Shared = true
	return caps
}

// Two servers with separate state directories share an engine. Their clients have the same name, and "all" covers only
// the server's own sandboxes.
func TestTerminateAllOfOwner(t *testing.T) {
	provider := fake.New(fake.Options{})
	factory := provider.Factory()
	factory.Open = func() (core.Provider, error) { return shared{provider}, nil }
	at := func() *bench {
		svc := service.New(service.Options{Actor: "mcp", StateDir: t.TempDir(), Factories: []core.Factory{factory}})
		return benchOver(t, provider, svc, setup.Options{})
	}
	ours, theirs := at(), at()
	us, them := ours.connect(t), theirs.connect(t)
	mine, other := us.Launch(nil), them.Launch(nil)
	got, _ := us.Call("sandbox_terminate", args{"all": true})["terminated"].([]any)
	if len(got) != 1 || got[0] != mine || ours.live(t, mine) || !theirs.live(t, other) {
		t.Errorf("terminated %v; mine is %s, another owner's is %s", got, mine, other)
	}
}

// Two servers and a command line share a state directory. Their sandboxes have the same owner, name and labels. "All"
// selects the sandboxes that the server launched, by id.
func TestTerminateAllIsThisServers(t *testing.T) {
	here := fake.New(fake.Options{Name: "here", IDPrefix: "her-"})
	there := fake.New(fake.Options{Name: "there", IDPrefix: "the-"})
	dir := t.TempDir()
	at := func() *bench {
		svc := service.New(service.Options{
			Actor: "mcp", StateDir: dir, Factories: []core.Factory{here.Factory(), there.Factory()},
		})
		return benchOver(t, here, svc, setup.Options{})
	}
	t.Cleanup(there.Shutdown)
	ours, theirs := at(), at()
	us, them := ours.connect(t), theirs.connect(t)
	mine := []string{us.Launch(args{"name": "dev", "provider": "here"}), us.Launch(args{"provider": "there"})}
	other := them.Launch(args{"name": "dev", "provider": "there"})
	by, err := ours.service.Sandboxes.Resolve(t.Context(), mine[0])
	if err != nil {
		t.Fatal(err)
	}
	// A copy of a sandbox, as "sb fork" makes it, has the same labels.
	copied, err := ours.service.Sandboxes.Launch(
		t.Context(), core.Spec{Name: by.Name + "-copy", Provider: "there", Labels: by.Labels}, service.LaunchOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	out := us.Call("sandbox_terminate", args{"all": true})
	checkOutput(t, "sandbox_terminate", out)
	if got := texts(out["terminated"]); !slices.Equal(sorted(got), sorted(mine)) {
		t.Errorf("terminated %q, want %q", got, mine)
	}
	if got := texts(out["others"]); !slices.Equal(sorted(got), sorted([]string{"there/" + other, copied.Ref()})) {
		t.Errorf("others are %q", got)
	}
	for _, id := range mine {
		if _, err := ours.service.Sandboxes.Resolve(t.Context(), id); !errors.Is(err, core.KindNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if !theirs.live(t, other) || !theirs.live(t, copied.ID) {
		t.Error("another's sandbox is gone")
	}
	if again := us.Call("sandbox_terminate", args{"all": true}); len(texts(again["terminated"])) != 0 {
		t.Errorf("again: %v", again)
	}
}

// texts returns the elements of a list of strings.
func texts(list any) []string {
	var all []string
	items, _ := list.([]any)
	for _, item := range items {
		text, _ := item.(string)
		all = append(all, text)
	}
	return all
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
