package modaltest

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/seed-0724f904/sb/core"
)

// watchEvery is how often a watch looks; what comes and goes in between it does not see.
const watchEvery = 50 * time.Millisecond

type fsWatch struct {
	Path      string    `json:"path"`
	Recursive bool      `json:"recursive"`
	Filter    *[]string `json:"filter"`
	Timeout   *int      `json:"timeout_secs"`
}

type fsEvent struct {
	Type  string   `json:"event_type"`
	Paths []string `json:"paths"`
}

// watch prints what changes below a path, until its time is over or its input ends.
func (t *fsRun) watch(ctx context.Context, w *fsWatch) error {
	root, err := t.follow(ctx, w.Path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if w.Timeout != nil {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*w.Timeout)*time.Second)
		defer cancel()
	}
	inputEnds := make(chan struct{})
	go func() {
		defer close(inputEnds)
		var one [1]byte
		for {
			if _, err := t.stdin.Read(one[:]); err != nil {
				return
			}
		}
	}()
	known, err := t.look(ctx, root, w.Recursive)
	if err != nil && ctx.Err() == nil {
		return err
	}
	out := json.NewEncoder(t.stdout)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-inputEnds:
			return nil
		case <-tick.C:
		}
		now, err := t.look(ctx, root, w.Recursive)
		if err != nil {
			continue // it may be there again when looked at next
		}
		for _, event := range changes(known, now) {
			if w.Filter != nil && !slices.Contains(*w.Filter, event.Type) {
				continue
			}
			if err := out.Encode(event); err != nil {
				return nil //nolint:nilerr // nobody listens any more
			}
		}
		known = now
	}
}

// look lists what a watch sees.
func (t *fsRun) look(ctx context.Context, root core.FileInfo, recursive bool) (map[string]core.FileInfo, error) {
	seen := map[string]core.FileInfo{}
	if !root.Mode.IsDir() {
		info, err := t.files.Stat(ctx, t.id, root.Path)
		if err == nil {
			seen[root.Path] = info
		}
		return seen, err
	}
	pending := []string{root.Path}
	for len(pending) > 0 {
		dir := pending[0]
		pending = pending[1:]
		infos, err := t.files.ReadDir(ctx, t.id, dir)
		if err != nil {
			if dir == root.Path {
				return nil, err
			}
			continue
		}
		for _, info := range infos {
			seen[info.Path] = info
			if recursive && info.Mode.IsDir() {
				pending = append(pending, info.Path)
			}
		}
	}
	return seen, nil
}

// changes compares two looks. A file that vanished and one of the same content that came are taken for one that moved.
func changes(before, after map[string]core.FileInfo) []fsEvent {
	var events []fsEvent
	var gone, came []string
	for name, info := range after {
		old, there := before[name]
		switch {
		case !there:
			came = append(came, name)
		case !info.Mode.IsDir() && (old.Size != info.Size || !old.ModTime.Equal(info.ModTime)):
			events = append(events, fsEvent{"Modify", []string{name}})
		}
	}
	for name := range before {
		if _, there := after[name]; !there {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	slices.Sort(came)
	for _, name := range gone {
		at := slices.IndexFunc(came, func(fresh string) bool {
			return after[fresh].Size == before[name].Size && after[fresh].ModTime.Equal(before[name].ModTime)
		})
		if at < 0 {
			events = append(events, fsEvent{"Remove", []string{name}})
			continue
		}
		events = append(events, fsEvent{"Rename", []string{name, came[at]}})
		came = slices.Delete(came, at, at+1)
	}
	for _, name := range came {
		events = append(events, fsEvent{"Create", []string{name}})
	}
	return events
}
