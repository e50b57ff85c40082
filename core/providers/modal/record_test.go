//go:build linux

package modal_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/providers/modal"
	"github.com/seed-0724f904/sb/core/providertest"
	"github.com/seed-0724f904/sb/core/service"
)

// A field that is too long for a sandbox's record is listed in Omitted, and the other fields stay. Move rejects a
// sandbox whose command was omitted; a move of paths only warns.
func TestLongSpecs(t *testing.T) {
	r := newRig(t, nil)
	elsewhere := fake.NewKeeper(fake.Options{}, fake.KeeperOptions{})
	defer elsewhere.Shutdown()
	svc := service.New(service.Options{Factories: []core.Factory{modal.Factory(r.opts), elsewhere.Factory()}})
	defer func() { _ = svc.Close() }()
	s := spec()
	s.Provider, s.Env = modal.Name, map[string]string{"SHORT": "kept"}
	s.Command = []string{"sh", "-c", "while ! test -e /tmp/go; do sleep 0.05; done; exit 3 # " +
		strings.Repeat("long", 1200)}
	sb, err := svc.Sandboxes.Launch(t.Context(), s, service.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := svc.Sandboxes.Resolve(t.Context(), sb.ID)
	if err != nil || !slices.Equal(found.Omitted, []string{"command"}) || found.Spec.Command != nil ||
		found.Spec.Env["SHORT"] != "kept" {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := svc.Policy.SetNetwork(t.Context(), sb.ID, core.Network{Mode: core.NetworkNone}); err != nil {
		t.Error(err)
	}
	if _, err := svc.Sandboxes.Move(t.Context(), sb.ID, service.MoveOptions{To: elsewhere.Name()}); !errors.Is(
		err, core.KindUnsupported,
	) || !strings.Contains(err.Error(), "command") {
		t.Errorf("moved: %v", err)
	}
	moved, err := svc.Sandboxes.Move(
		t.Context(), sb.ID, service.MoveOptions{To: elsewhere.Name(), Keep: true, Paths: []string{"/root"}},
	)
	if err != nil || !slices.ContainsFunc(moved.Warnings, func(w string) bool { return strings.Contains(w, "command") }) {
		t.Errorf("%+v, %v", moved, err)
	}
	process, err := svc.Execs.Start(t.Context(), sb.ID, core.ExecSpec{Command: []string{"touch", "/tmp/go"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Close() }()
	if ended, err := svc.Sandboxes.Wait(providertest.Patient(t), sb.ID); err != nil || ended.ExitCode == nil ||
		*ended.ExitCode != 3 {
		t.Errorf("it ended as %+v, %v", ended, err)
	}
}
