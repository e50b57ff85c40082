package mcp

import (
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

// Two servers with a state directory each, at one engine: their clients have the same name, and "all" is one's own.
func TestTerminateAllIsTheOwners(t *testing.T) {
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
