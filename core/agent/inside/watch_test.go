//go:build linux

package inside

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-0724f904/sb/core/agent/guest"
)

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	elsewhere := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(path("old"), 0o700))
	filter := []string{guest.WatchCreate, guest.WatchRemove, guest.WatchRename, guest.WatchRenameFrom, guest.WatchRenameTo}
	argv, err := guest.Watch{Path: dir, Recursive: true, Filter: &filter}.Argv(guest.Program)
	must(err)
	c := command(t, argv)
	stdin, err := c.StdinPipe()
	must(err)
	stdout, err := c.StdoutPipe()
	must(err)
	c.Stderr = os.Stderr
	must(c.Start())

	lines := json.NewDecoder(stdout)
	next := func() (event guest.WatchEvent) {
		t.Helper()
		must(lines.Decode(&event))
		return event
	}
	// The first event shows that the watch has begun.
	ready := make(chan guest.WatchEvent)
	go func() {
		var event guest.WatchEvent
		_ = lines.Decode(&event)
		ready <- event
	}()
	for waiting := true; waiting; {
		must(os.WriteFile(path("beat"), nil, 0o600))
		must(os.Remove(path("beat")))
		select {
		case <-ready:
			waiting = false
		default:
		}
	}

	must(os.WriteFile(path("old/short"), nil, 0o600))
	must(os.Remove(path("old/short")))
	must(os.WriteFile(path("a"), nil, 0o600))
	must(os.Rename(path("a"), path("old/b")))
	must(os.Rename(path("old"), filepath.Join(elsewhere, "old")))

	var got []guest.WatchEvent
	until := func(path string) {
		for len(got) == 0 || got[len(got)-1].Paths[0] != path {
			if event := next(); !slices.Contains(event.Paths, filepath.Join(dir, "beat")) {
				got = append(got, event)
			}
		}
	}
	until(path("old"))
	must(os.WriteFile(filepath.Join(elsewhere, "old/unseen"), nil, 0o600))
	must(os.Rename(filepath.Join(elsewhere, "old"), path("back")))
	until(path("back"))
	// The watch reads a new directory only after its event, so earlier content appears as events, too.
	must(os.WriteFile(path("next"), nil, 0o600))
	until(path("next"))
	must(os.Remove(path("back/unseen")))
	until(path("back/unseen"))
	want := []guest.WatchEvent{
		{Type: guest.WatchCreate, Paths: []string{path("old/short")}},
		{Type: guest.WatchRemove, Paths: []string{path("old/short")}},
		{Type: guest.WatchCreate, Paths: []string{path("a")}},
		{Type: guest.WatchRename, Paths: []string{path("a"), path("old/b")}},
		{Type: guest.WatchRenameFrom, Paths: []string{path("old")}},
		{Type: guest.WatchRenameTo, Paths: []string{path("back")}},
		{Type: guest.WatchCreate, Paths: []string{path("next")}},
		{Type: guest.WatchRemove, Paths: []string{path("back/unseen")}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	must(stdin.Close())
	if err := c.Wait(); err != nil {
		t.Errorf("it ended with %v when its input ended", err)
	}
}
