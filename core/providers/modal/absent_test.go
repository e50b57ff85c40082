//go:build linux

package modal_test

import (
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
	"github.com/seed-0724f904/sb/core/providers/fake"
	"github.com/seed-0724f904/sb/core/providers/modal"
)

// A Modal that never answers is not asked for what is elsewhere.
func TestModalIsNotAskedForWhatIsElsewhere(t *testing.T) {
	r := newRig(t, nil)
	r.faults.SetLatency(time.Hour)
	r.server.ResetCalls()
	elsewhere := fake.New(fake.Options{})
	defer elsewhere.Shutdown()
	service := core.New(core.Options{Factories: []core.Factory{
		{Name: elsewhere.Name(), IDPrefix: "fak-", Open: func() (core.Provider, error) { return elsewhere, nil }}, modal.Factory(r.opts),
	}})
	ctx := t.Context()
	sb, err := service.Launch(ctx, core.Spec{Name: "here"}, core.LaunchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"here", sb.ID, sb.ID[:len(sb.ID)-2]} {
		process, err := service.Exec(ctx, ref, core.ExecSpec{Command: []string{"true"}})
		if err != nil {
			t.Fatalf("%s: %v", ref, err)
		}
		_ = process.Close()
	}
	if _, err := service.List(ctx, core.ListFilter{Provider: elsewhere.Name()}); err != nil {
		t.Error(err)
	}
	if err := service.Terminate(ctx, "here"); err != nil {
		t.Error(err)
	}
	if err := service.Close(); err != nil || len(r.server.Calls()) > 0 {
		t.Errorf("Modal was asked %v; %v", r.server.Calls(), err)
	}
}
