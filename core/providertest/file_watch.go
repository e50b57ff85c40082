package providertest

import (
	"context"
	"testing"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// fileWatch changes files until a watch has reported each kind of change.
func (s *suite) fileWatch(t *testing.T) {
	p := s.provider(t)
	watcher, ok := optional[core.FileWatcher](t, p)
	if !ok {
		return
	}
	id := launch(t, p, nil).ID
	if r := sh(t, p, id, "mkdir -p /tmp/watched/below"); r.exit.Code != 0 {
		t.Fatalf("%+v", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	// The start of the watch is not reported, so the changes repeat until they are seen.
	changes, err := p.Exec(
		ctx, id,
		core.ExecSpec{
			Command: []string{"sh", "-c", "cd /tmp/watched/below; while :; do echo x >a; mv a b; rm b; sleep 0.1; done"},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = changes.Close() }()
	missing := map[core.FileEventKind]bool{
		core.FileCreated: true, core.FileModified: true, core.FileRenamed: true, core.FileRemoved: true,
	}
	for event, err := range watcher.WatchFiles(ctx, id, "/tmp/watched", true) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Path != "/tmp/watched/below/a" && event.Path != "/tmp/watched/below/b" &&
			event.Path != "/tmp/watched/below" {
			t.Errorf("an event is %+v", event)
		}
		if delete(missing, event.Kind); len(missing) == 0 {
			break
		}
	}
	if len(missing) > 0 {
		t.Errorf("not reported: %v", missing)
	}
	short, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	for _, err := range watcher.WatchFiles(short, id, "/tmp", false) {
		if err != nil && core.KindOf(err) != core.KindTimeout {
			t.Errorf("a watch whose time is over: %v", err)
		}
	}
	for _, err := range watcher.WatchFiles(ctx, id, "/tmp/nothing", false) {
		wantKind(t, err, core.KindNotFound)
	}
}
