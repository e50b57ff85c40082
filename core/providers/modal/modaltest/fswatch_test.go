//go:build linux

package modaltest_test

import (
	"testing"
	"time"

	sdk "github.com/modal-labs/modal-client/go"
)

// A short-lived file is reported. A file that moves away is reported as moved, not as removed.
func TestWatchReportsBriefFiles(t *testing.T) {
	r := newRig(t, nil)
	sb := r.create(nil)
	run(t, sb, "mkdir -p /tmp/watched/below")
	life := 30 * time.Second
	events, err := sb.Filesystem.Watch(
		t.Context(), "/tmp/watched", &sdk.SandboxFilesystemWatchParams{Recursive: true, Timeout: &life},
	)
	if err != nil {
		t.Fatal(err)
	}
	// The watch starts with its first read, so changes continue until it reports the first one.
	go func() {
		_, _ = sb.Exec(t.Context(),
			[]string{"sh", "-c", `i=0; until test -e /tmp/seen; do : >/tmp/watched/$i; i=$((i+1)); sleep 0.05; done
			: >/tmp/watched/below/short; rm /tmp/watched/below/short; : >/tmp/watched/away; mv /tmp/watched/away /tmp/away; : >/tmp/watched/last`}, nil)
	}()
	var short, removed, away bool
	first := true
	for event, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		if first {
			first = false
			run(t, sb, ": >/tmp/seen")
		}
		switch path := event.Paths[0]; {
		case path == "/tmp/watched/below/short" && event.EventType == sdk.FileWatchEventTypeCreate:
			short = true
		case path == "/tmp/watched/below/short" && event.EventType == sdk.FileWatchEventTypeRemove:
			removed = true
		case path == "/tmp/watched/away" && event.EventType == sdk.FileWatchEventTypeModify:
			away = true
		}
		if event.Paths[0] == "/tmp/watched/last" {
			break
		}
	}
	if !short || !removed || !away {
		t.Errorf("created %v, removed %v, moved away %v", short, removed, away)
	}
}
