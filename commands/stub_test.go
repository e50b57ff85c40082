package commands

import (
	"context"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-0724f904/sb/commands/internal/cli"
	"github.com/seed-0724f904/sb/commands/internal/clitest"
	"github.com/seed-0724f904/sb/commands/iostreams"
	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/service"
)

// stub is a provider in memory. Its commands are: "echo WORDS", "err WORDS" (on stderr), "cat", "exit CODE", "timeout",
// "oom", "fail".
type stub struct {
	mu         sync.Mutex
	boxes      map[string]core.Sandbox
	leases     map[string]core.Lease
	terminated []string
	ran        []core.ExecSpec
	next       int
	// gone lists sandboxes that are found, but another client ends them before Terminate.
	gone []string
	// lists counts the calls of List.
	lists int
}

func (s *stub) Name() string { return "stub" }

func (s *stub) Capabilities() core.Capabilities {
	return core.Capabilities{
		Has: []core.Capability{
			core.CapTTY, core.CapUser, core.CapTimeout, core.CapMemory, core.CapNetNone, core.CapNetAll,
		},
		Images: []string{"host"}, GPUs: map[string]int{"T4": 1}, Isolation: "none, it is a stub",
	}
}

func (s *stub) Check(context.Context) error { return nil }
func (s *stub) Close() error                { return nil }

func (s *stub) Launch(
	_ context.Context, spec core.Spec, lease core.Lease, report core.ProgressFunc,
) (core.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	report(core.Progress{Step: "building"})
	s.next++
	box := core.Sandbox{
		ID: "stb-" + strconv.Itoa(s.next), Name: spec.Name, Provider: "stub", App: spec.App, State: core.StateRunning,
		Image: spec.Image, Labels: spec.Labels, Spec: spec.Redacted(), Created: clitest.Now().
			Add(-3 * 60e9), Started: clitest.Now(), Lease: lease,
	}
	s.boxes[box.ID], s.leases[box.ID] = box, lease
	return box, nil
}

func (s *stub) Get(_ context.Context, id string) (core.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if box, ok := s.boxes[id]; ok {
		return box, nil
	}
	return core.Sandbox{}, core.Errorf(core.KindNotFound, "get", id, "no such sandbox")
}

func (s *stub) List(context.Context) ([]core.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	return slices.Collect(maps.Values(s.boxes)), nil
}

func (s *stub) Terminate(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.gone, id) {
		return core.Errorf(core.KindNotFound, "terminate", id, "no such sandbox")
	}
	delete(s.boxes, id)
	s.terminated = append(s.terminated, id)
	return nil
}

func (s *stub) Exec(_ context.Context, id string, spec core.ExecSpec) (core.Process, error) {
	s.mu.Lock()
	s.ran = append(s.ran, spec)
	s.mu.Unlock()
	out := func(w io.Writer, text string) {
		if w != nil {
			_, _ = io.WriteString(w, text)
		}
	}
	var exit core.Exit
	words := strings.Join(spec.Command[1:], " ")
	switch spec.Command[0] {
	case "echo":
		out(spec.Stdout, words+"\n")
	case "err":
		out(spec.Stderr, words+"\n")
	case "binary":
		out(spec.Stdout, "\xff\xfe")
	case "cat":
		if spec.Stdin != nil {
			content, err := io.ReadAll(spec.Stdin)
			if err != nil {
				return nil, err
			}
			out(spec.Stdout, string(content))
		}
	case "exit":
		exit.Code, _ = strconv.Atoi(words)
	case "timeout":
		exit = core.Exit{Code: 143, Signal: 15, TimedOut: true}
	case "oom":
		exit = core.Exit{Code: 137, Signal: 9, Reason: core.ReasonMemory, Message: "memory use is over the limit"}
	case "lifetime":
		s.mu.Lock()
		box := s.boxes[id]
		box.State, box.Reason = core.StateExited, core.ReasonTimeout
		s.boxes[id] = box
		s.mu.Unlock()
		return nil, core.Errorf(core.KindUnavailable, "exec", id, "the supervisor has ended")
	case "fail":
		return nil, core.Errorf(core.KindUnavailable, "exec", id, "the supervisor has ended")
	}
	return ended{exit}, nil
}

// ended is a process that has ended.
type ended struct{ exit core.Exit }

func (ended) ID() string                                      { return "1" }
func (ended) Close() error                                    { return nil }
func (e ended) Wait(context.Context) (core.Exit, error)       { return e.exit, nil }
func (ended) Signal(context.Context, int) error               { return nil }
func (ended) Resize(context.Context, core.TerminalSize) error { return nil }

// stubApp makes an App over a stub with sandboxes of these names.
func stubApp(t *testing.T, names ...string) (*cli.App, *iostreams.Test, *stub) {
	t.Helper()
	provider := &stub{boxes: map[string]core.Sandbox{}, leases: map[string]core.Lease{}}
	app, streams := appOver(t, provider, names...)
	return app, streams, provider
}

// appOver makes an App over a stub, or over a provider that embeds one, with sandboxes of these names.
func appOver(t *testing.T, provider core.Provider, names ...string) (*cli.App, *iostreams.Test) {
	t.Helper()
	app, streams := clitest.New(t, nil)
	app.Signals = cli.SignalsFrom(make(chan os.Signal))
	svc := service.New(service.Options{
		Actor: "test", Now: app.Now,
		Factories: []core.Factory{{Name: "stub", IDPrefix: "stb-", Open: func() (core.Provider, error) {
			return provider, nil
		}}},
	})
	t.Cleanup(func() {
		if err := svc.Close(); err != nil {
			t.Error(err)
		}
	})
	app.Service = func() (*service.Service, error) { return svc, nil }
	for _, name := range names {
		spec := core.Spec{Name: name, Image: "host", App: "web", Labels: map[string]string{"name": name}}
		if _, err := svc.Sandboxes.Launch(t.Context(), spec, service.LaunchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return app, streams
}
