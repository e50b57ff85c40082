package commands

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/clitest"
	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// sharedStub is a stub that other users have sandboxes at.
type sharedStub struct{ *stub }

func (s sharedStub) Capabilities() core.Capabilities {
	caps := s.stub.Capabilities()
	caps.Shared = true
	return caps
}

// sharedApp makes an App over a shared provider with the sandboxes stb-1 and stb-2. Both are in the app web; another
// owner has stb-2.
func sharedApp(t *testing.T) (*cli.App, *iostreams.Test, *stub) {
	t.Helper()
	provider := &stub{boxes: map[string]core.Sandbox{}, leases: map[string]core.Lease{}}
	var app *cli.App
	var streams *iostreams.Test
	for _, name := range []string{"theirs", "mine"} {
		app, streams = clitest.New(t, nil)
		app.Signals = cli.SignalsFrom(make(chan os.Signal))
		svc := service.New(service.Options{
			Actor: "test", Now: app.Now, StateDir: t.TempDir(),
			Factories: []core.Factory{{Name: "stub", IDPrefix: "stb-", Open: func() (core.Provider, error) {
				return sharedStub{provider}, nil
			}}},
		})
		t.Cleanup(func() {
			if err := svc.Close(); err != nil {
				t.Error(err)
			}
		})
		app.Service = func() (*service.Service, error) { return svc, nil }
		if _, err := svc.Sandboxes.Launch(
			t.Context(), core.Spec{Name: name, Image: "host", App: "web"}, service.LaunchOptions{},
		); err != nil {
			t.Fatal(err)
		}
	}
	return app, streams, provider
}

// At a shared provider, "all" selects the sandboxes of this owner. With --all-owners it selects those of other owners,
// too.
func TestAllOwners(t *testing.T) {
	for _, tt := range []struct {
		args    string
		code    int
		left    []string
		message string
	}{
		{
			args: "terminate --all --yes", left: []string{"theirs"},
			message: "1 sandbox of other owners left alone; --all-owners includes them\n",
		},
		{args: "terminate --all --yes --all-owners"},
		{args: "terminate --app web --yes", left: []string{"theirs"}, message: "--all-owners includes them\n"},
		{args: "terminate theirs --yes", left: []string{"mine"}},
		{
			args: "app stop web --yes", code: 4, left: []string{"mine", "theirs"},
			message: "1 of the 2 sandboxes in app \"web\" belong to other owners",
		},
		{args: "app stop web --yes --all-owners"},
		{args: "prune --yes", left: []string{"mine", "theirs"}},
	} {
		app, streams, provider := sharedApp(t)
		code := execute(t.Context(), app, strings.Fields(tt.args))
		var left []string
		for _, box := range provider.boxes {
			left = append(left, box.Name)
		}
		if slices.Sort(left); code != tt.code || !slices.Equal(left, tt.left) ||
			!strings.Contains(streams.Err.String(), tt.message) {
			t.Errorf("%s: exit code %d, left %v: %s", tt.args, code, left, streams.Err)
		}
	}
}

// prune removes an ended sandbox of another owner with --all-owners only.
func TestPruneAllOwners(t *testing.T) {
	for args, want := range map[string]int{"prune --yes": 1, "prune --yes --all-owners": 0} {
		app, streams, provider := sharedApp(t)
		for _, id := range slices.Collect(maps.Keys(provider.boxes)) {
			box := provider.boxes[id]
			box.State, box.Ended = core.StateExited, clitest.Now().Add(-24*time.Hour)
			provider.boxes[id] = box
		}
		code := execute(t.Context(), app, strings.Fields(args))
		if code != 0 || len(provider.boxes) != want {
			t.Errorf("%s: exit code %d, left %v: %s", args, code, provider.boxes, streams.Err)
		}
	}
}
